"""What an engine costs: start-up and seconds per round, beside one process.

    python benchmarks/deployed_seconds.py [--engines nvflare,flower] [--keep]

fed-avg on Cora, three sites, float32, with a small model and one of 10 MB; the median of a few
rounds, the first left out. A round is training and scoring: two requests per site. Besides, private
matching of 20,000 ids per side, and what signing a message costs; with ``--engines ''`` these two
alone. ``--keep`` puts the figures into docs/deployment.md: run it on a machine that does nothing
else.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import findings
from atoll.deploy.envelope import Label, opened, sealed
from atoll.deploy.identity import identity_of
from atoll.deploy.keyring import enrol, public
from atoll.deploy.matching import TURNS, Limits, Matcher
from atoll.experiment.runner import run_experiment
from atoll.files import write_json
from atoll.tree import Tree
from deployed import deploy, experiment, on_stage, seconds_a_round

# Hidden units, and rounds by engine.
_MODELS = {
    "a round, model of 93 kB": (16, {"simulation": 41, "nvflare": 41, "flower": 4}),
    "a round, model of 10 MB": (1800, {"simulation": 6, "nvflare": 6, "flower": 3}),
}
_IDS = 20_000
_SIZES = {200: "200 bytes", 93_000: "93 kB", 10_000_000: "10 MB"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", default="nvflare,flower")
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    for number, engine in enumerate(filter(None, given.engines.split(","))):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            with on_stage(root, SimpleNamespace(data="cora", engine=engine)) as stage:
                _tell(given, "server and sites up", engine, stage.seconds)
                starts = []
                for row, (hidden, rounds) in _MODELS.items():
                    chosen = _chosen(root, hidden, rounds[engine])
                    result, start = deploy(stage, root, engine, chosen)
                    starts.append(start)
                    _tell(given, row, engine, median(seconds_a_round(result)[1:]))
                _tell(given, "from submission to the first round", engine, median(starts))
            if number == 0:  # the engine's processes have ended
                for row, (hidden, rounds) in _MODELS.items():
                    result = run_experiment(_chosen(root, hidden, rounds["simulation"]), root / row)
                    _tell(given, row, "simulation", median(seconds_a_round(result)[1:]))
    _tell(given, f"{_IDS:,} ids per side matched privately", "simulation", _matching())
    for size, words in _SIZES.items():
        for what, seconds in _signing(size).items():
            _tell(given, f"a message of {words} {what}", "simulation", seconds)
    return 0


def _chosen(root: Path, hidden: int, rounds: int):
    return experiment(
        root / "s", "fed-avg", SimpleNamespace(hidden=hidden, rounds=rounds, dtype="float32")
    )


def _tell(given: argparse.Namespace, row: str, column: str, seconds: float) -> None:
    figure = f"{seconds:.3g}" if seconds < 10 else f"{seconds:.0f}"
    print(f"{row} | {column} | {figure} s", flush=True)
    if given.keep:
        findings.keep("seconds", row, column, figure)


def _matching() -> float:
    """Both sides, one after the other, on this machine."""
    ids = np.random.default_rng(0).permutation(_IDS + _IDS // 2)
    sides = {"a": ids[:_IDS], "b": ids[-_IDS:]}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in sides:
            write_json(root / f"site-{name}" / "atoll.json", {"name": name})
        enrol(root, list(sides))
        started = time.monotonic()
        matchers = {
            name: Matcher(
                own, root / name, identity_of(root / f"site-{name}", root), ("run", 1), Limits()
            )
            for name, own in sides.items()
        }
        inbox: dict[str, Tree] = {"a": {}, "b": {}}
        for turn in TURNS:
            sent = {
                name: matcher.turn(turn, inbox[name], "ab".replace(name, ""))
                for name, matcher in matchers.items()
            }
            if turn != TURNS[-1]:
                inbox = {"a": {"from/b": sent["b"]["to/a"]}, "b": {"from/a": sent["a"]["to/b"]}}
        seconds = time.monotonic() - started
    assert len(sent["a"]["pair/b"]) == _IDS // 2
    return seconds


def _signing(size: int) -> dict[str, float]:
    """What an envelope costs one side, and what it costs the other."""
    key, content = Ed25519PrivateKey.generate(), secrets.token_bytes(size)
    shown, label = bytes.fromhex(public(key)), Label("run", "site", 1, secrets.token_hex(8))
    taken: dict[str, list[float]] = {"signed": [], "checked": []}
    for _ in range(30):
        began = time.perf_counter()
        message = sealed(key, "request", label, content)
        between = time.perf_counter()
        opened(shown, "request", message)
        taken["signed"].append(between - began)
        taken["checked"].append(time.perf_counter() - between)
    return {what: median(times) for what, times in taken.items()}


if __name__ == "__main__":
    sys.exit(main())
