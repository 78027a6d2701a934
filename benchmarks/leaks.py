"""What the messages of every method tell: the table of docs/privacy-leaks.md.

    python benchmarks/leaks.py --out leaks.jsonl [--seeds 3] [--methods fed-avg fed-gala ...]
        [--rounds 20] [--clients 5] [--set SECTION.KEY=VALUE ...] [--label "(noise 1, clip 1)"]
        [--show] [--page docs/privacy-leaks.md]

Each method is run on Cora, on parties that share nodes where it needs them (``louvain-anchors``)
and by METIS elsewhere, with every message kept; then all attacks are made. One line of JSON per
method and seed; runs that the file has already are not repeated. ``--show`` prints the table of a
file, means and standard deviations over its seeds, and ``--page`` puts it into the page.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

from atoll.errors import AtollError
from atoll.experiment.choices import choose
from atoll.experiment.config import setting
from atoll.experiment.leaks import attacked
from atoll.experiment.runner import run_experiment
from atoll.methods.base import methods
from atoll.privacy.attacks import Finding

COLUMNS = (
    "links by what is sent of nodes, server",
    "client",
    "links by model and features, server",
    "by features alone",
    "membership, server",
    "client",
    "words in a gradient, server",
    "by others' words",
    "nearest gradient, server",
    "shuffled",
    "features of nodes, server",
    "chance",
)


# Which columns are scores; the others stand beside them and hardly differ between seeds.
SCORES = (0, 1, 2, 4, 5, 6, 8, 10)


def row(found: list[Finding]) -> list[float | None]:
    """The cells of a run: the strongest finding of each sort, each the mean over its victims."""

    def best(attack: str, attacker: str, test=lambda f: True) -> Finding | None:
        fitting = [f for f in found if (f.attack, f.attacker) == (attack, attacker) and test(f)]
        return max(fitting, key=lambda f: f.score, default=None)

    def of_model(f: Finding) -> bool:
        return f.of.startswith("model")

    links = best("link-stealing", "server", lambda f: not of_model(f))
    by_client = best("link-stealing", "client", lambda f: not of_model(f))
    by_model = best("link-stealing", "server", of_model)
    inside = [best("membership", who) for who in ("server", "client")]
    words = best("gradient-inversion", "server", lambda f: f.measure == "words, AUC")
    near = best("gradient-inversion", "server", lambda f: f.measure == "best cosine")
    inverted = best("feature-inversion", "server")
    shown = [links, by_client, by_model, links or by_model, *inside, words, words, near, near]
    shown += [inverted, inverted]
    fields = ["score"] * 3 + ["features_alone"] + ["score"] * 3 + ["features_alone"]
    fields += ["score", "chance", "score", "chance"]
    values = [getattr(f, field, None) for f, field in zip(shown, fields, strict=True)]
    return [None if value != value else value for value in values]


def measured(name: str, seed: int, given: argparse.Namespace) -> list[float | None]:
    method = methods[name]
    anchors = method().needs_anchors or method.usual_partition == "louvain-anchors"
    settings = [setting(text) for text in given.set] + [("run.keep_messages", True)]
    folder = Path(tempfile.mkdtemp())
    try:
        experiment = choose(
            method=name, data="cora", partition="louvain-anchors" if anchors else "metis",
            clients=given.clients, rounds=given.rounds, seed=seed, settings=settings,
        )  # fmt: skip
        run_experiment(experiment, folder / "run", ledger=False)
        return row(attacked(folder / "run"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(given: argparse.Namespace) -> None:
    lines = given.out.read_text().splitlines() if given.out.is_file() else []
    known = {(line["title"], line["seed"]) for line in map(json.loads, lines)}
    for seed in range(given.seeds):
        for name in given.methods:
            title = f"{name} {given.label}".strip()
            if (title, seed) in known:
                continue
            started = time.monotonic()
            try:
                cells = measured(name, seed, given)
            except AtollError as problem:
                print(f"{name}: not run: {problem}", file=sys.stderr, flush=True)
                continue
            with given.out.open("a") as file:
                file.write(json.dumps({"title": title, "seed": seed, "cells": cells}) + "\n")
            print(title, seed, f"({time.monotonic() - started:.0f} s)", flush=True)


def table(out: Path) -> str:
    """One row per method, in the order of the alphabet."""
    cells: dict[str, list[list[float | None]]] = {}
    for line in map(json.loads, out.read_text().splitlines()):
        cells.setdefault(line["title"], []).append(line["cells"])
    lines = [f"| method | {' | '.join(COLUMNS)} | seeds |", "|---" * (len(COLUMNS) + 2) + "|"]
    for title in sorted(cells):
        columns = zip(*cells[title], strict=True)
        shown = [_cell(column, list(values)) for column, values in enumerate(columns)]
        lines.append(f"| {title} | {' | '.join(shown)} | {len(cells[title])} |")
    return "\n".join(lines) + "\n"


def _cell(column: int, values: list[float | None]) -> str:
    found = [value for value in values if value is not None]
    if not found:
        return "-"
    spread = column in SCORES and len(found) > 1
    return f"{statistics.fmean(found):.2f}" + (
        f" ± {statistics.stdev(found):.2f}" if spread else ""
    )


def put(page: Path, text: str) -> None:
    """Replace what stands between the page's two marks."""
    begin, end = "<!-- leaks -->\n", "<!-- /leaks -->"
    before, _, rest = page.read_text().partition(begin)
    page.write_text(before + begin + text + end + rest.partition(end)[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("leaks.jsonl"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", nargs="+", default=sorted(methods))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--label", default="", help="added to the method's name in the table")
    parser.add_argument("--show", action="store_true", help="only the table of the file")
    parser.add_argument("--page", type=Path, help="e.g. docs/privacy-leaks.md, which gets it")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    if not given.show:
        run(given)
    text = table(given.out)
    print(text)
    if given.page:
        put(given.page, text)


if __name__ == "__main__":
    main()
