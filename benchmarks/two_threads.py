"""A round on one thread and on two, by the clock, alone and beside a process that counts.

    python benchmarks/two_threads.py [--only cora-10 ...] [--page docs/performance.md]

Blocks of rounds on one and on two threads take turns, as if `run.threads` were 1 and 2; the median
over blocks is reported. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

import torch

from atoll.experiment.config import resolve
from atoll.experiment.memory import keep_freed_memory
from atoll.experiment.parties import load_parties
from atoll.files import write_json
from beside.machine import machine
from beside.page import with_table
from round_time import Round, atoll_side

KEPT = Path(__file__).parent / "results" / "two_threads.json"
# As many nodes and features as ogbn-arxiv has.
_LARGE = {"name": "communities", "nodes": 169_343, "communities": 20, "features": 128,
          "classes": 20, "degree": 13.7, "inside": 0.9}  # fmt: skip
FEDERATIONS: dict[str, dict[str, Any]] = {
    **{
        f"{data.removeprefix('amazon-')}-{clients}": {
            "data": {"name": data},
            "partition": {"name": "metis", "clients": clients},
        }
        for data, clients in (("cora", 10), ("cora", 50), ("pubmed", 10), ("amazon-photo", 10))
    },
    "169,343 nodes, 20": {"data": _LARGE, "partition": {"name": "natural"}},
}
METHODS = ("fed-avg", "fed-pub")
WARM_UP, BLOCKS, SECONDS = 3, 7, 0.2
# Rounds of a block: of more, FED-PUB's models would grow without bound (see its docstring).
MOST = 10


def measure(federation: str, method: str) -> Iterator[dict[str, Any]]:
    """Milliseconds per round on one thread and on two, alone and beside the busy process."""
    experiment = resolve({"method": {"name": method}, **FEDERATIONS[federation]})
    parties = load_parties(experiment)
    for beside in (False, True):
        one_round = atoll_side(experiment, parties)
        for count in (1, 2):
            torch.set_num_threads(count)
            took = seconds(one_round, WARM_UP) / WARM_UP
        rounds = min(max(1, round(SECONDS / took)), MOST)
        found: dict[int, list[float]] = {1: [], 2: []}
        with busy() if beside else nullcontext():
            for _ in range(BLOCKS):
                for count, blocks in found.items():
                    torch.set_num_threads(count)
                    blocks.append(1e3 * seconds(one_round, rounds) / rounds)
        yield {
            "federation": federation,
            "method": method,
            "busy": beside,
            "rounds": rounds,
            "one": found[1],
            "two": found[2],
        }


def seconds(one_round: Round, rounds: int) -> float:
    started = time.perf_counter()
    for _ in range(rounds):
        one_round()
    return time.perf_counter() - started


@contextmanager
def busy() -> Iterator[None]:
    """A process that does nothing but keep a core busy."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def lines(rows: list[dict[str, Any]]) -> list[str]:
    text = [
        "| federation | method | beside | one thread, ms | two threads, ms | one / two |",
        "|---|---|---|---:|---:|---:|",
    ]
    for row in rows:
        one, two = statistics.median(row["one"]), statistics.median(row["two"])
        text.append(
            f"| {row['federation']} | {row['method']} | "
            f"{'a busy process' if row['busy'] else 'nothing'} | {one:.1f} | {two:.1f} | "
            f"{one / two:.2f} |"
        )
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", default=list(FEDERATIONS), choices=FEDERATIONS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--json", type=Path, default=KEPT, help="where figures are kept")
    parser.add_argument("--page", type=Path, help="a page whose table is written")
    args = parser.parse_args()
    keep_freed_memory()
    rows = []
    for federation in args.only:
        for method in args.methods:
            for row in measure(federation, method):
                rows.append(row)
                print(lines([row])[-1], flush=True)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    write_json(args.json, {"machine": machine(), "rows": rows})
    if args.page:
        args.page.write_text(with_table(args.page.read_text(), "two threads", lines(rows)))


if __name__ == "__main__":
    main()
