"""What the messages of every method tell: the table of docs/privacy-leaks.md.

    python benchmarks/leaks.py [--methods fed-avg fed-gala ...] [--rounds 20] [--clients 5]
        [--set SECTION.KEY=VALUE ...] [--label "with noise"] [--page docs/privacy-leaks.md]

Each method is run on Cora, on parties that share nodes where it needs them (``louvain-anchors``)
and by METIS elsewhere, with every message kept; then all attacks are made. A row of the page is
replaced by the method's new one.
"""

from __future__ import annotations

import argparse
import logging
import re
import shutil
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

PAGE = Path(__file__).parents[1] / "docs" / "privacy-leaks.md"
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


def row(found: list[Finding]) -> list[str]:
    """The cells of a method: the strongest finding of each sort."""

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
    return [_cell(f, field) for f, field in zip(shown, fields, strict=True)]


def _cell(found: Finding | None, field: str) -> str:
    if found is None:
        return "-"
    value = getattr(found, field)
    if value != value:
        return "-"
    return f"{value:.2f} ± {found.std:.2f}" if field == "score" else f"{value:.2f}"


def measured(name: str, given: argparse.Namespace) -> list[str]:
    method = methods[name]
    anchors = method().needs_anchors or method.usual_partition == "louvain-anchors"
    settings = [setting(text) for text in given.set] + [("run.keep_messages", True)]
    folder = Path(tempfile.mkdtemp())
    try:
        experiment = choose(
            method=name, data="cora", partition="louvain-anchors" if anchors else "metis",
            clients=given.clients, rounds=given.rounds, seed=given.seed, settings=settings,
        )  # fmt: skip
        run_experiment(experiment, folder / "run", ledger=False)
        return row(attacked(folder / "run"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def put(page: Path, title: str, cells: list[str]) -> None:
    """Replace a row of the page's table, or add it in the order of the alphabet."""
    text = page.read_text()
    head, table, tail = re.split(r"(?<=<!-- leaks -->\n)(.*?)(?=<!-- /leaks -->)", text, flags=re.S)
    rows = {line.split("|")[1].strip(): line for line in table.splitlines()[2:]}
    rows[title] = f"| {title} | " + " | ".join(cells) + " |"
    top = [f"| method | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    page.write_text(head + "\n".join(top + [rows[key] for key in sorted(rows)]) + "\n" + tail)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--methods", nargs="+", default=sorted(methods))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--label", default="", help="added to the method's name in the table")
    parser.add_argument("--page", type=Path, default=PAGE)
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    for name in given.methods:
        started = time.monotonic()
        try:
            cells = measured(name, given)
        except AtollError as problem:
            print(f"{name}: not run: {problem}", file=sys.stderr, flush=True)
            continue
        put(given.page, f"{name} {given.label}".strip(), cells)
        print(name, *cells, f"({time.monotonic() - started:.0f} s)", sep="  ", flush=True)


if __name__ == "__main__":
    main()
