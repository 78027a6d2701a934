"""What an engine costs: start-up and seconds per round, beside one process.

    python benchmarks/deployed_seconds.py [--engines nvflare,flower] [--keep]

fed-avg on Cora, three sites, float32, with a small model and one of 10 MB; the median of a few
rounds, the first left out. A round is training and scoring: two requests per site. Besides, private
matching of 20,000 ids per side. ``--keep`` puts the figures into docs/deployment.md: run it on a
machine that does nothing else.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import numpy as np
import torch

import findings
from atoll.deploy.matching import Matcher, equal_places
from atoll.experiment.runner import run_experiment
from deployed import deploy, experiment, on_stage, seconds_a_round

# Hidden units, and rounds by engine.
_MODELS = {
    "a round, model of 93 kB": (16, {"simulation": 41, "nvflare": 41, "flower": 4}),
    "a round, model of 10 MB": (1800, {"simulation": 6, "nvflare": 6, "flower": 3}),
}
_IDS = 20_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", default="nvflare,flower")
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    for number, engine in enumerate(given.engines.split(",")):
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
    """Both sides and the coordinator, one after the other, on this machine."""
    ids = np.random.default_rng(0).permutation(_IDS + _IDS // 2)
    sides = (ids[:_IDS], ids[-_IDS:])
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        matchers = [Matcher(own, Path(folder) / str(k)) for k, own in enumerate(sides)]
        lists = [matcher.turn("blind", {}, {})[0] for matcher in matchers]
        raised = [matchers[k].turn("raise", lists[1 - k], {})[0]["points"] for k in range(2)]
        places = equal_places(raised[1], raised[0])
        for matcher, place in zip(matchers, places, strict=True):
            matcher.turn("anchors", {"shared": torch.from_numpy(place)}, {})
        seconds = time.monotonic() - started
    assert len(places[0]) == _IDS // 2
    return seconds


if __name__ == "__main__":
    sys.exit(main())
