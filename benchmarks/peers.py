"""Atoll beside OpenFGL and beside a plain PyTorch Geometric loop: the same parts, the same work.

    python benchmarks/peers.py                              every case, about 12 minutes
    python benchmarks/peers.py --cases cora-10 fed-pub      some of them: federations, methods,
    python benchmarks/peers.py --cases 'cora-*:fed-avg'     or both, with wildcards
    python benchmarks/peers.py --openfgl DIR                a checkout instead of the PyPI package
    python benchmarks/peers.py --page docs/performance.md   also write the page's tables
    python benchmarks/peers.py --cases none --page PAGE     only that, from what is kept

Every side is a process of its own and gets the very same parts and splits in a file. Sides take
turns: a block of rounds each, several times. A round is training, averaging and the evaluation of
every client. Reported are the median over blocks, the least and the most: CPU milliseconds per
round on one thread, milliseconds by the clock on two. Figures are kept as JSON, one record per
case, so that some can be measured again. Run it on a machine that does nothing else; where
something else ran, the page says so.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import atoll
from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.experiment.parties import load_parties
from atoll.files import write_text
from beside.cases import FEDERATIONS, LONG, SHORT, SLOW, WARM_UP, Case, chosen
from beside.environment import checked, default_cache, peer_python
from beside.machine import machine
from beside.page import (
    SIDES,
    generator_table,
    origins,
    ratio,
    rounds_table,
    spread,
    times,
    with_table,
)
from beside.parts import write_parts
from beside.side import Side

KEPT = Path(__file__).parent / "results" / "peers.json"


def parts_of(federation: str, folder: Path) -> Path:
    """The federation's parts in a file: METIS, 20/40/40, words as they were counted."""
    data, clients = FEDERATIONS[federation]
    table = {
        "data": {"name": data, "normalise": False},
        "partition": {"name": "metis", "clients": clients},
        "method": {"name": "fed-avg"},
    }
    path = folder / f"{federation}.npz"
    write_parts(path, load_parties(resolve(table)).graphs)
    return path


def measure(case: Case, parts: Path, sides: list[Side], short: bool) -> dict[str, Any]:
    """The case's record: blocks of rounds, the sides taking turns."""
    sides = [side for side in sides if side.name != "pyg" or case.pairing.plain_loop]
    found: dict[str, Any] = {
        side.name: {"versions": side.versions, "blocks": [], "generator": []} for side in sides
    }
    for side in sides:
        found[side.name] |= side.ask(parts=str(parts), case=case.order())
    for _ in range(case.pairing.generator):
        for side in sides:
            found[side.name]["generator"].append(side.ask(rounds=1, threads=1))
    command = f"python benchmarks/peers.py --cases {case.name}{' --short' * short}"
    for _ in range(WARM_UP):
        slowest = max(take_turn(side, 1, 1)["cpu"] for side in sides)
    short = short or slowest > SLOW
    for rounds, threads in SHORT if short else LONG:
        for side in sides:
            block = take_turn(side, rounds, threads)
            found[side.name]["blocks"].append(block)
    for side in sides:
        side.ask(end=True)
    return {
        "federation": case.federation,
        "method": case.method,
        "command": command,
        "short": short,
        "settings": case.order(),
        "taken": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine(),
        "sides": found,
    }


def take_turn(side: Side, rounds: int, threads: int) -> dict[str, Any]:
    return {"rounds": rounds, "threads": threads, **side.ask(rounds=rounds, threads=threads)}


def kept(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.is_file() else {}


def keep(path: Path, records: dict[str, Any]) -> None:
    """One line per case, so that a change of one is a change of one line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{json.dumps(name)}: {json.dumps(records[name])}" for name in sorted(records)]
    write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")


def write_page(page: Path, records: dict[str, Any]) -> None:
    order = [case.name for case in chosen(["*"])]
    ordered = [records[name] for name in order if name in records]
    text = with_table(page.read_text(), "peers", [*rounds_table(ordered), "", *origins(ordered)])
    page.write_text(with_table(text, "generators", generator_table(ordered)))


def said(record: dict[str, Any]) -> str:
    """A case in one line, while the others go on."""
    parts = [f"{SIDES[s]} {spread(times(record, s, 1))} ms" for s in record["sides"]]
    ours = times(record, "atoll", 1)
    factors = [ratio(times(record, s, 1), ours).strip("*") for s in ("openfgl", "pyg")]
    return f"{', '.join(parts)}; times {' and '.join(filter(None, factors))}"


def run(args: argparse.Namespace) -> None:
    wanted = [] if args.cases == ["none"] else chosen(args.cases)
    records = kept(args.json)
    ready = startable(args) if wanted else []
    started = time.perf_counter()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for federation, group in groupby(wanted, lambda case: case.federation):
            parts = parts_of(federation, folder)
            with ExitStack() as sides:
                open_sides = [sides.enter_context(Side(*side)) for side in ready]
                for case in group:
                    record = measure(case, parts, open_sides, args.short)
                    records[case.name] = record
                    keep(args.json, records)
                    spent = time.perf_counter() - started
                    print(f"[{spent:5.0f} s] {case.name}: {said(record)}", flush=True)
    if args.page:
        write_page(args.page, records)


def startable(args: argparse.Namespace) -> list[tuple[str, Path, tuple[Path, ...]]]:
    """The sides: name, interpreter, and folders whose packages it is to find."""
    own = Path(sys.executable)
    sides: list[tuple[str, Path, tuple[Path, ...]]] = []
    if "openfgl" not in args.without:
        checkout = checked(args.openfgl) if args.openfgl else None
        python = peer_python(args.cache, checkout)
        sides.append(("openfgl", python, (checkout,) if checkout else ()))
    if "pyg" not in args.without:
        sides.append(("pyg", own, ()))
    if "atoll" not in args.without:
        sides.append(("atoll", own, (Path(atoll.__file__).parents[1],)))
    return sides


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="+", default=[], help="some cases only; none: no case")
    parser.add_argument("--openfgl", type=Path, metavar="DIR", help="a checkout of OpenFGL")
    parser.add_argument("--without", nargs="+", default=[], choices=("openfgl", "pyg"))
    parser.add_argument("--short", action="store_true", help="fewer blocks: to see that it works")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="for the environment")
    parser.add_argument("--json", type=Path, default=KEPT, help="where figures are kept")
    parser.add_argument("--page", type=Path, help="a page whose tables are written")
    args = parser.parse_args()
    try:
        run(args)
    except AtollError as problem:
        print(problem, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
