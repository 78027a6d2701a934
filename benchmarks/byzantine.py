"""Two of ten clients flip the sign of their updates and send them tenfold: what is lost.

    python benchmarks/byzantine.py --out byzantine.jsonl --seeds 5

Cora, METIS, 10 clients. One line of JSON per run; runs that the file has already are not repeated.
The score is the mean test accuracy of the honest clients at the round with their best validation
accuracy. ``--show`` prints the table of a file.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from atoll.errors import NoReplies
from atoll.experiment.config import resolve
from atoll.experiment.parties import load_parties, simulate
from atoll.federation.inprocess import InProcess
from atoll.federation.protocol import Call
from atoll.federation.validation import Batch
from atoll.leaves import Compound
from atoll.masked import Masked
from atoll.tree import Tree, kind, take

ROBUST = (
    "none", "norm-clip", "median", "trimmed-mean", "krum", "multi-krum", "geometric-median",
)  # fmt: skip
METHODS = ("fed-avg", "fed-pub")
# At one local step fed-avg is still far from converged after 100 rounds, and any client that is
# missing slows it down.
EPOCHS, SCORED_EVERY = 3, 5


class Byzantine(InProcess):
    """A simulation in which some clients send ``sent - strength (trained - sent)``."""

    hostile: frozenset[int] = frozenset()
    strength: float = 10.0

    def deliver(self, call: Call, to: tuple[int, ...], each: Tree) -> Iterator[Batch]:
        for batch in super().deliver(call, to, each):
            bad = [i for i, client in enumerate(batch.clients) if client in self.hostile]
            rows = take(each, [to.index(client) for client in batch.clients])
            body = {
                name: self.flipped(leaf, rows.get(name, call.shared.get(name)), bad)
                if kind(name) == "model"
                else leaf
                for name, leaf in batch.body.items()
            }
            yield Batch(batch.clients, body, batch.weight)

    def flipped(self, leaf: Tensor | Compound, sent: Tensor | Compound, bad: list[int]):
        if isinstance(leaf, Masked):
            values = self.flipped(leaf.values, sent.values, bad)
            return Masked(values * leaf.kept, leaf.kept)
        if not bad:
            return leaf
        began = sent if sent.dim() == leaf.dim() else sent.expand_as(leaf)
        changed = leaf.clone()
        changed[bad] = began[bad] - self.strength * (leaf[bad] - began[bad])
        return changed


def trained(method: str, robust: str, attacked: bool, seed: int, rounds: int, data: str) -> float:
    """The honest clients' test accuracy in percent."""
    table = {
        "data": {"name": data},
        "partition": {"name": "metis", "clients": 10},
        "method": {"name": method, "epochs": EPOCHS},
        "run": {"rounds": rounds, "seed": seed},
        "privacy": {"robust": robust, "hostile": 2},
    }
    experiment = resolve(table)
    fed, state = simulate(experiment, load_parties(experiment))
    attack = Byzantine(fed.host)
    attack.averaging = fed.averaging
    attack.hostile = frozenset({3, 7}) if attacked else frozenset()
    torch.set_num_threads(1)
    honest = [k for k in range(10) if k not in (3, 7)]
    best = (-1.0, 0.0)
    for r in range(1, rounds + 1):
        attack.begin(r)
        try:
            state = experiment.method.round(attack, state, r)
            if r % SCORED_EVERY:
                continue
            replies = experiment.method.measure(attack, state)
        except NoReplies:  # nobody has a finite model left
            break
        # Who has a model that gives no finite score is right about nothing.
        scores = torch.zeros(10, 3, dtype=torch.float64)
        scores[replies.rows] = replies["metric"]["accuracy"]
        _, val, test = np.nanmean(scores[honest].numpy(), axis=0)
        best = max(best, (float(val), float(test)), key=lambda pair: pair[0])
    return 100 * best[1]


def measured(
    out: Path, seeds: int, rounds: int, methods: list[str], rules: list[str], data: str
) -> None:
    lines = out.read_text().splitlines() if out.is_file() else []
    known = {json.loads(line)["key"] for line in lines}
    for seed in range(seeds):
        for method in methods:
            for robust in rules:
                for attacked in (False, True):
                    key = f"{method} {robust} {attacked} {seed} {rounds} {data}"
                    if key in known:
                        continue
                    test = trained(method, robust, attacked, seed, rounds, data)
                    facts = {"method": method, "robust": robust, "attacked": attacked}
                    row = {"key": key} | facts | {"test": test}
                    with out.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                    print(row, flush=True)


def shown(out: Path) -> None:
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    print("| method | mean | without attack | two of ten hostile | seeds |")
    print("|---|---|---|---|---|")
    for method in dict.fromkeys(row["method"] for row in rows):
        for robust in dict.fromkeys(row["robust"] for row in rows):
            both = [
                [r["test"] for r in rows
                 if (r["method"], r["robust"], r["attacked"]) == (method, robust, attacked)]
                for attacked in (False, True)
            ]  # fmt: skip
            if all(both):
                cells = " | ".join(_cell(scores) for scores in both)
                print(f"| {method} | {robust} | {cells} | {len(both[1])} |")


def _cell(scores: list[float]) -> str:
    spread = f" ± {statistics.stdev(scores):.1f}" if len(scores) > 1 else ""
    return f"{statistics.fmean(scores):.1f}{spread}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("byzantine.jsonl"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--rules", nargs="*", default=list(ROBUST))
    parser.add_argument("--data", default="cora")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    if not options.show:
        measured(
            options.out, options.seeds, options.rounds, options.methods, options.rules, options.data
        )
    shown(options.out)


if __name__ == "__main__":
    main()
