"""Two of ten clients are hostile: what is lost, by attack and by robust mean.

    python benchmarks/byzantine.py --out byzantine.jsonl --seeds 5 [--settings steps-3 steps-1]
        [--methods fed-avg fed-pub] [--rules none norm-clip ...] [--attacks none flip-10 ...]

Cora, METIS, 10 clients. One line of JSON per run; runs that the file has already are not repeated.
The score is the mean test accuracy of the eight honest clients at the round with their best
validation accuracy. ``left-out`` is a server that knows who is hostile and never asks them.
``--show`` prints the tables of a file, ``--page`` puts them into a page.

Attacks: ``flip-10`` sends the update with its sign flipped, ten times as long; ``flip-1`` the same
at its own length; ``noise`` Gaussian noise as long as the update; ``labels`` trains on labels
``classes - 1 - y``; ``little`` sends the honest clients' mean less 1.5 of their standard
deviations, coordinate by coordinate ("a little is enough", Baruch et al., 2019), knowing all of
their updates.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from atoll.errors import NoReplies
from atoll.experiment.config import resolve
from atoll.experiment.memory import keep_freed_memory
from atoll.experiment.parties import load_parties, simulate
from atoll.federation.calls import Call
from atoll.federation.inprocess import InProcess
from atoll.federation.validation import Batch
from atoll.leaves import Compound
from atoll.masked import Masked
from atoll.tree import Tree, kind, take

RULES = (
    "none", "left-out", "norm-clip", "geometric-median", "trimmed-mean", "median", "multi-krum",
    "krum",
)  # fmt: skip
METHODS = ("fed-avg", "fed-pub")
# Local steps per round, and rounds.
SETTINGS = {"steps-3": (3, 60), "steps-1": (1, 100), "steps-1-long": (1, 200)}
HOSTILE, CLIENTS, SCORED_EVERY = (3, 7), 10, 5
HONEST = [k for k in range(CLIENTS) if k not in HOSTILE]
LITTLE = 1.5

# Updates [m, ...] of the hostile clients and of the others: what the hostile ones send for theirs.
Attack = Callable[[Tensor, Tensor], Tensor]


def flip(strength: float) -> Attack:
    return lambda own, _: -strength * own


def noise(own: Tensor, _: Tensor) -> Tensor:
    drawn = torch.randn_like(own).flatten(1)
    scale = own.flatten(1).norm(dim=1, keepdim=True) / drawn.norm(dim=1, keepdim=True)
    return (drawn * scale).view_as(own)


def little(own: Tensor, honest: Tensor) -> Tensor:
    return (honest.mean(0) - LITTLE * honest.std(0)).expand_as(own)


ATTACKS: dict[str, Attack] = {
    "none": lambda own, _: own,
    "flip-10": flip(10.0),
    "flip-1": flip(1.0),
    "noise": noise,
    "labels": lambda own, _: own,  # what is done to their data is enough
    "little": little,
}


class Byzantine(InProcess):
    """A simulation in which some clients send other updates than they have."""

    hostile: frozenset[int] = frozenset()
    attack: Attack = staticmethod(flip(10.0))

    def deliver(self, call: Call, to: tuple[int, ...], each: Tree) -> Iterator[Batch]:
        for batch in super().deliver(call, to, each):
            bad = [i for i, client in enumerate(batch.clients) if client in self.hostile]
            rows = take(each, [to.index(client) for client in batch.clients])
            body = {
                name: self.changed(leaf, rows.get(name, call.shared.get(name)), bad)
                if bad and kind(name) == "model"
                else leaf
                for name, leaf in batch.body.items()
            }
            yield Batch(batch.clients, body, batch.weight)

    def changed(
        self, leaf: Tensor | Compound, sent: Tensor | Compound, bad: list[int]
    ) -> Tensor | Compound:
        if isinstance(leaf, Masked):
            values = self.changed(leaf.values, sent.values, bad)
            return Masked(values * leaf.kept, leaf.kept)
        began = sent if sent.dim() == leaf.dim() else sent.expand_as(leaf)
        good = [i for i in range(len(leaf)) if i not in bad]
        updates, changed = leaf - began, leaf.clone()
        changed[bad] = began[bad] + self.attack(updates[bad], updates[good])
        return changed


def trained(method: str, rule: str, attack: str, seed: int, setting: str, data: str) -> float:
    """The honest clients' test accuracy in percent."""
    steps, rounds = SETTINGS[setting]
    table = {
        "data": {"name": data},
        "partition": {"name": "metis", "clients": CLIENTS},
        "method": {"name": method, "epochs": steps},
        "run": {"rounds": rounds, "seed": seed},
        "privacy": {"robust": "none" if rule == "left-out" else rule, "hostile": len(HOSTILE)},
    }
    experiment = resolve(table)
    parties = load_parties(experiment)
    if attack == "labels":
        parties = replace(
            parties, graphs=[_mislabelled(k, g) for k, g in enumerate(parties.graphs)]
        )
    fed, state = simulate(experiment, parties)
    byzantine = Byzantine(fed.host)
    byzantine.averaging = fed.averaging
    byzantine.attack = ATTACKS[attack]
    byzantine.hostile = frozenset(HOSTILE) if attack != "none" else frozenset()
    if rule == "left-out":
        byzantine.reached = lambda to: tuple(k for k in to if k in HONEST)  # type: ignore[method-assign]
    torch.manual_seed(seed)  # for what the attack draws
    best = (-1.0, 0.0)
    for r in range(1, rounds + 1):
        byzantine.begin(r)
        try:
            state = experiment.method.round(byzantine, state, r)
            if r % SCORED_EVERY:
                continue
            replies = experiment.method.measure(byzantine, state)
        except NoReplies:  # nobody has a finite model left
            break
        # Who has a model that gives no finite score is right about nothing.
        scores = torch.zeros(CLIENTS, 3, dtype=torch.float64)
        scores[replies.rows] = replies["metric"]["accuracy"]
        _, val, test = np.nanmean(scores[HONEST].numpy(), axis=0)
        best = max(best, (float(val), float(test)), key=lambda pair: pair[0])
    return 100 * best[1]


def _mislabelled(client: int, graph):
    if client not in HOSTILE:
        return graph
    turned = np.where(graph.y >= 0, graph.classes - 1 - graph.y, graph.y)
    return replace(graph, y=turned.astype(graph.y.dtype))


def measured(given: argparse.Namespace) -> None:
    out = given.out
    lines = out.read_text().splitlines() if out.is_file() else []
    known = {json.loads(line)["key"] for line in lines}
    for seed in range(given.seeds):
        for setting in given.settings:
            for method in given.methods:
                for attack in given.attacks:
                    for rule in given.rules:
                        if rule == "left-out" and attack != "none":
                            continue
                        key = f"{setting} {method} {rule} {attack} {seed} {given.data}"
                        if key in known:
                            continue
                        test = trained(method, rule, attack, seed, setting, given.data)
                        facts = {"setting": setting, "method": method, "rule": rule}
                        row = {"key": key} | facts | {"attack": attack, "test": test}
                        with out.open("a") as file:
                            file.write(json.dumps(row) + "\n")
                        print(row, flush=True)


def tables(out: Path) -> str:
    """One table per setting and method: a row per rule, a column per attack."""
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    text = []
    for method in METHODS:
        for setting, (steps, rounds) in SETTINGS.items():
            theirs = [r for r in rows if (r["setting"], r["method"]) == (setting, method)]
            if theirs:
                often = "one local step" if steps == 1 else f"{steps} local steps"
                text += [f"{method}, {often} per round, {rounds} rounds:", "", *_table(theirs), ""]
    return "\n".join(text)


def _table(rows: list[dict]) -> list[str]:
    attacks = [a for a in ATTACKS if any(r["attack"] == a for r in rows)]
    names = ["no attack" if a == "none" else f"`{a}`" for a in attacks]
    lines = [f"| | {' | '.join(names)} | seeds |", f"|---|{'---|' * len(attacks)}---|"]
    for rule in RULES:
        cells = [
            [r["test"] for r in rows if (r["rule"], r["attack"]) == (rule, attack)]
            for attack in attacks
        ]
        if any(cells):
            counts = sorted({len(c) for c in cells if c})
            seeds = "-".join(str(n) for n in dict.fromkeys((counts[0], counts[-1])))
            shown = {"none": "plain mean", "left-out": "left out"}.get(rule, f"`{rule}`")
            lines.append(f"| {shown} | {' | '.join(map(_cell, cells))} | {seeds} |")
    return lines


def put(page: Path, text: str) -> None:
    """Replace what stands between the page's two marks."""
    begin, end = "<!-- byzantine -->\n", "<!-- /byzantine -->"
    before, _, rest = page.read_text().partition(begin)
    page.write_text(before + begin + text + end + rest.partition(end)[2])


def _cell(scores: list[float]) -> str:
    if not scores:
        return ""
    spread = f" ± {statistics.stdev(scores):.1f}" if len(scores) > 1 else ""
    return f"{statistics.fmean(scores):.1f}{spread}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("byzantine.jsonl"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--settings", nargs="*", default=["steps-3", "steps-1"], choices=SETTINGS)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--rules", nargs="*", default=list(RULES))
    parser.add_argument("--attacks", nargs="*", default=list(ATTACKS), choices=ATTACKS)
    parser.add_argument("--data", default="cora")
    parser.add_argument("--show", action="store_true", help="only the tables of the file")
    parser.add_argument("--page", type=Path, help="e.g. docs/privacy.md, which gets the tables")
    options = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(1)
    if not options.show:
        measured(options)
    text = tables(options.out)
    print(text)
    if options.page:
        put(options.page, text)


if __name__ == "__main__":
    main()
