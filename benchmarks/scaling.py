"""Seconds per round and peak memory against clients, nodes, features and the share that takes part.

    python benchmarks/scaling.py                          all cases but the two largest
    python benchmarks/scaling.py --large                  with 100,000 clients
    python benchmarks/scaling.py --only clients fraction --out scaling.json
    python benchmarks/scaling.py --case '{"clients": 10000, "nodes": 1000000}'

FedAvg with a GCN of two layers (hidden 64, dropout 0.5, Adam) on random communities, one per
client, by the run loop of ``atoll run``: history, ledger and best models are in it. Each case runs
in a process of its own, so that its peak memory is its own. ``first`` is the time from nothing to
the end of the first round, imports aside; ``round`` the median of the later ones without scores,
``scored`` that of the last, in which every client is scored. Memory of files that are mapped and
could be given back counts as well.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

Case = dict[str, Any]
USUAL: Case = {
    "clients": 1_000,
    "nodes": 100_000,
    "features": 100,
    "fraction": 1.0,
    "rounds": 5,
    "evaluates": "global",
    "threads": 0,
}
LARGE = 100_000
COLUMNS = ("clients", "nodes", "features", "fraction")
FIGURES = ("first", "round", "round_cpu", "scored", "gigabytes")


def cases() -> Iterator[tuple[str, Case]]:
    for clients in (10, 100, 1_000, 10_000):
        yield "clients", {"clients": clients, "nodes": 100 * clients}
    for clients in (10, 100, 1_000, 10_000):
        yield "total", {"clients": clients, "nodes": 100_000}
    for nodes in (1_000, 10_000, 100_000, 1_000_000):
        yield "nodes", {"clients": 10, "nodes": nodes}
    for features in (10, 100, 1_000):
        yield "features", {"features": features}
    for fraction in (1.0, 0.1, 0.01):
        yield "fraction", {"clients": 10_000, "nodes": 1_000_000, "fraction": fraction}
    yield "fraction", {"clients": LARGE, "nodes": 100 * LARGE, "fraction": 0.01}
    yield "fraction", {"clients": LARGE, "nodes": 100 * LARGE, "fraction": 0.001}


def measured(case: Case) -> dict[str, float]:
    """One case, in this process."""
    from atoll.experiment.config import resolve
    from atoll.experiment.runner import run_experiment

    chosen = resolve(
        {
            "data": {
                "name": "communities",
                "nodes": case["nodes"],
                "communities": case["clients"],
                "features": case["features"],
                "classes": 10,
                "degree": 8.0,
                "inside": 0.9,
            },
            "partition": {"name": "natural"},
            "model": {"hidden": 64},
            "method": {
                "name": "fed-avg",
                "fraction": case["fraction"],
                "evaluates": case["evaluates"],
            },
            "run": {
                "rounds": case["rounds"],
                "score_every": case["rounds"],
                "threads": case["threads"],
                "checkpoint_seconds": 1e6,
            },
        }
    )
    wall, cpu = [time.perf_counter()], [time.process_time()]

    def tell(done: int, _: float) -> None:
        wall.append(time.perf_counter())
        cpu.append(time.process_time())
        took = f"{wall[-1] - wall[-2]:.2f} s, {cpu[-1] - cpu[-2]:.2f} CPU-s"
        print(f"round {done}: {took}, {gigabytes():.2f} GB", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        run_experiment(chosen, Path(folder) / "run", progress=tell)
    seconds = [b - a for a, b in pairwise(wall)]
    cpu_seconds = [b - a for a, b in pairwise(cpu)]
    return {
        "first": seconds[0],
        "first_cpu": cpu_seconds[0],
        "round": statistics.median(seconds[1:-1]),
        "round_cpu": statistics.median(cpu_seconds[1:-1]),
        "scored": seconds[-1],
        "scored_cpu": cpu_seconds[-1],
        "gigabytes": gigabytes(),
    }


def gigabytes() -> float:
    """The most memory this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def in_its_own_process(case: Case) -> Case:
    command = [sys.executable, __file__, "--case", json.dumps(case)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return {**case, "failed": f"ended with code {done.returncode}"}
    found: Case = json.loads(done.stdout.splitlines()[-1])
    return found


def markdown(rows: list[Case]) -> str:
    head = ("against", *COLUMNS, "first (s)", "round (s)", "CPU (s)", "scored (s)", "GB")
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        cells = [row["against"], *(f"{row[c]:,}" for c in COLUMNS)]
        cells += [f"{row[f]:.2f}" if f in row else row.get("failed", "") for f in FIGURES]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", help="clients, total, nodes, features or fraction")
    parser.add_argument("--large", action="store_true", help="with 100,000 clients")
    parser.add_argument("--threads", type=int, default=0, help="of torch; 0: what suits the graph")
    parser.add_argument("--out", type=Path, help="write the figures here, as JSON")
    parser.add_argument("--case", help="measure one case, given as JSON, in this process")
    args = parser.parse_args()
    if args.case:
        case = USUAL | json.loads(args.case)
        print(json.dumps(case | measured(case)))
        return
    rows: list[Case] = []
    for against, changed in cases():
        if (args.only and against not in args.only) or (
            changed.get("clients", 0) >= LARGE and not args.large
        ):
            continue
        case = USUAL | changed | {"threads": args.threads}
        rows.append({"against": against} | in_its_own_process(case))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    print(markdown(rows))
    if args.out:
        args.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
