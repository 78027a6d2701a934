"""Accuracy against epsilon: fed-avg and fed-gala under noise, each a row of a small table.

    python benchmarks/privacy_curve.py --out curve.jsonl --seeds 3

One line of JSON per run; runs that the file has already are not repeated. ``--show`` prints the
table of a file. Clients are scored with the global model, which has the noise; their own, which
they have just trained, never left them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atoll.experiment.config import resolve
from atoll.experiment.runner import run_experiment
from atoll.privacy.accounting import noise_for

EPSILONS = (8.0, 100.0, 1000.0, 10000.0, 0.0)
DATA = ("cora", "coauthor-cs")
DELTA, CLIENTS, ROUNDS = 1e-5, 10, 30


@dataclass(frozen=True)
class Variant:
    """A method under one kind of noise, and how often one client releases something in a run."""

    method: dict[str, Any]
    model: dict[str, Any]
    privacy: dict[str, Any]
    releases: int
    partition: str = "metis"


FED_AVG = {"name": "fed-avg", "evaluates": "global", "epochs": 3}
GCN = {"name": "gcn", "hidden": 64}
VARIANTS = {
    "fed-avg": Variant(FED_AVG, GCN, {}, ROUNDS),
    # Its anchors' embeddings are one release more.
    "fed-gala": Variant(
        {"name": "fed-gala", "evaluates": "global", "combined_rounds": 10},
        GCN, {}, ROUNDS + 1, "louvain-anchors",
    ),
    "fed-avg, noise on the secure sum": Variant(
        FED_AVG, GCN, {"noise_at": "sum", "secure_sum": True}, ROUNDS
    ),
    # One step per round: each is a release.
    "fed-avg, mlp, per node": Variant(
        FED_AVG | {"epochs": 1}, {"name": "mlp", "hidden": 64}, {"unit": "node"}, ROUNDS
    ),
}  # fmt: skip


def table_of(variant: Variant, data: str, epsilon: float, seed: int) -> dict[str, Any]:
    """The experiment of one run; epsilon 0 is training without noise or clipping."""
    table = {
        "data": {"name": data},
        "partition": {"name": variant.partition, "clients": CLIENTS},
        "model": variant.model,
        "method": variant.method,
        "run": {"rounds": ROUNDS, "seed": seed},
    }
    if epsilon:
        noise = noise_for(epsilon, variant.releases, DELTA)
        given = {"noise": noise, "clip": 1.0, "epsilon": epsilon, "delta": DELTA}
        table["privacy"] = given | variant.privacy
    return table


def measured(out: Path, seeds: int, data: list[str], variants: list[str]) -> None:
    known = (
        {json.loads(line)["key"] for line in out.read_text().splitlines()}
        if out.is_file()
        else set()
    )
    for name in data:
        for seed in range(seeds):
            for method in variants:
                for epsilon in EPSILONS:
                    key = f"{method} {name} {epsilon:g} {seed}"
                    if key in known:
                        continue
                    with tempfile.TemporaryDirectory() as folder:
                        experiment = resolve(table_of(VARIANTS[method], name, epsilon, seed))
                        result = run_experiment(experiment, Path(folder) / "run", ledger=False)
                    row = {
                        "key": key, "method": method, "data": name, "epsilon": epsilon,
                        "seed": seed, "noise": experiment.privacy.noise,
                        "spent": result.figures.get("epsilon", 0.0),
                        "test": 100 * result.test_accuracy,
                        "rounds": result.figures["rounds"],
                    }  # fmt: skip
                    with out.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                    print(row, flush=True)


def shown(out: Path) -> None:
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    print("| method | data | epsilon | noise multiplier | test accuracy | seeds |")
    print("|---|---|---|---|---|---|")
    cells = dict.fromkeys((row["data"], row["method"], row["epsilon"]) for row in rows)
    for data, method, epsilon in sorted(cells, key=lambda c: (c[0], c[1], c[2] or 1e9)):
        found = [
            row
            for row in rows
            if (row["data"], row["method"], row["epsilon"]) == (data, method, epsilon)
        ]
        scores = [row["test"] for row in found]
        spread = f" ± {statistics.stdev(scores):.1f}" if len(scores) > 1 else ""
        noise = f"{found[0]['noise']:.3g}" if epsilon else "0"
        budget = f"{epsilon:g}" if epsilon else "none"
        mean = statistics.fmean(scores)
        print(f"| {method} | {data} | {budget} | {noise} | {mean:.1f}{spread} | {len(scores)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("privacy-curve.jsonl"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", nargs="*", default=list(DATA))
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS))
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    if not options.show:
        measured(options.out, options.seeds, options.data, options.variants)
    shown(options.out)


if __name__ == "__main__":
    main()
