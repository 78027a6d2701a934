"""Why a method's accuracy here differs from OpenFGL's: one setting changed at a time, over seeds.

    python benchmarks/peers_accuracy.py pubmed-10:moon --rounds 16 100 --seeds 3
    python benchmarks/peers_accuracy.py pubmed-10:moon --set model.dropout=0 --peer dropout=0.0
    python benchmarks/peers_accuracy.py cora-50:fed-sage-plus --start anew --without atoll

Both sides begin as in ``peers.py``: the same parts, the same settings. ``--set`` changes one of
Atoll's (``method.``, ``model.``), ``--peer`` one of OpenFGL's own command line or, as
``config.NAME``, of its settings of the method, ``--both`` what they share (``lr``, ``decay``,
``epochs``). ``--start`` changes what OpenFGL's FedSage+ averages first: classifiers of clients that
each began with weights of their ``own`` (as published) or ``alike``, or, instead of them, a
classifier ``anew``. Reported is the test accuracy in the round with the best validation accuracy
among the first so many rounds, the mean over clients; over seeds, the mean and the standard
deviation. The cut stays the same.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from atoll.errors import AtollError
from beside.cases import chosen
from beside.environment import default_cache
from beside.side import Side
from peers import parts_of, startable

Scores = list[list[float]]
# What both sides take from the same place.
SHARED = ("lr", "decay", "epochs")


def value(text: str) -> Any:
    """A number or a truth value where it is one, else the text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def changed(
    order: dict[str, Any], ours: list[str], peers: list[str], both: list[str]
) -> dict[str, Any]:
    """A case's order with other settings for one side or the other, or for both."""
    order = order | {"options": dict(order["options"]), "model": dict(order["model"])}
    for name, _, text in (setting.partition("=") for setting in both):
        if name not in SHARED:
            raise AtollError(f"--both has no '{name}'; it has {', '.join(SHARED)}.")
        order[name] = value(text)
    for setting in ours:
        name, _, text = setting.partition("=")
        section, _, option = name.partition(".")
        order["options" if section == "method" else section][option] = value(text)
    pairs = {name: value(text) for name, _, text in (setting.partition("=") for setting in peers)}
    own = {n.removeprefix("config."): v for n, v in pairs.items() if n.startswith("config.")}
    rest = {n: v for n, v in pairs.items() if not n.startswith("config.")}
    return order | {"config": order["config"] | own, "arguments": order["arguments"] | rest}


def best_of(scores: Scores, rounds: int) -> float:
    return 100 * max(scores[:rounds], key=lambda score: score[0])[1]


def run(args: argparse.Namespace) -> None:
    (case,) = chosen([args.case])
    if args.start != "own" and not case.pairing.generator:
        raise AtollError(f"--start is for fed-sage-plus; {case.name} has no generator rounds.")
    order = changed(case.order(), args.set, args.peer, args.both)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        parts = parts_of(case.federation, folder)
        for side in [stack.enter_context(Side(*s)) for s in startable(args) if s[0] != "pyg"]:
            found: list[Scores] = []
            for seed in range(args.seeds):
                side.ask(parts=str(parts), case=order | {"seed": seed, "start": args.start})
                for _ in range(order["generator"]):
                    side.ask(rounds=1, threads=1)
                found.append(side.ask(rounds=max(args.rounds), threads=1)["scores"])
                side.ask(end=True)
            cells = []
            for rounds in args.rounds:
                best = [best_of(scores, rounds) for scores in found]
                mean, std = statistics.mean(best), statistics.pstdev(best)
                cells.append(f"{rounds}: {mean:.1f} ± {std:.1f}")
            if args.each:
                cells.append(" ".join(f"{100 * test:.1f}" for _, test in found[0]))
            started = [f"start={args.start}"] * (args.start != "own")
            what = " ".join((args.set if side.name == "atoll" else args.peer + started) + args.both)
            print(f"{case.name} {side.name} {what} | {' | '.join(cells)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("case", help="FEDERATION:METHOD")
    parser.add_argument("--rounds", nargs="+", type=int, default=[16, 30, 100])
    parser.add_argument("--each", action="store_true", help="also each round's, of the first seed")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", nargs="+", default=[], metavar="method.NAME=VALUE")
    parser.add_argument("--peer", nargs="+", default=[], metavar="NAME=VALUE")
    parser.add_argument("--both", nargs="+", default=[], metavar="NAME=VALUE")
    parser.add_argument("--start", choices=("own", "alike", "anew"), default="own")
    parser.add_argument("--openfgl", type=Path, metavar="DIR", help="a checkout of OpenFGL")
    parser.add_argument("--without", nargs="+", default=[], choices=("openfgl", "atoll"))
    parser.add_argument("--cache", type=Path, default=default_cache(), help="for the environment")
    try:
        run(parser.parse_args())
    except AtollError as problem:
        print(problem, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
