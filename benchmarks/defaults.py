"""Every method with no option but the data: does it do what it is for within the default rounds?

One line per method and data: the test score at the best round in percent, that of training alone on
the same clients, seconds, and what the method itself remarks on.

    python benchmarks/defaults.py                       # all methods, three datasets, one seed
    python benchmarks/defaults.py --data cora --methods fed-gala,fed-avg --seeds 3
    python benchmarks/defaults.py --data cora --methods fed-gala --settings paper
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from atoll.errors import AtollError
from atoll.experiment.choices import choose
from atoll.experiment.config import Experiment
from atoll.experiment.result import Result
from atoll.experiment.runner import run_experiment
from atoll.methods.base import methods
from atoll.reproduction.paper import paper_settings

# Streamers of a country are a client by themselves; the other graphs are cut.
DATA: dict[str, dict[str, Any]] = {
    "cora": {"clients": 8},
    "digits": {},
    "twitch": {"partition": "natural"},
}
# Training alone is a second or two on the smaller graphs and the same for most methods.
_alone: dict[str, Result] = {}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", default=",".join(DATA))
    parser.add_argument("--methods", default=",".join(methods))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--settings", choices=("paper",))
    given = parser.parse_args()
    for data in given.data.split(","):
        for method in given.methods.split(","):
            print(line(method, data, given.seeds, given.settings == "paper"), flush=True)


def line(method: str, data: str, seeds: int, paper: bool) -> str:
    """What came of a method on some data, in one line."""
    of_paper = paper_settings if paper else None
    try:
        chosen = [
            choose(method=method, data=data, seed=seed, **DATA[data], paper=of_paper)
            for seed in range(seeds)
        ]
        start = time.perf_counter()
        results = [run(experiment) for experiment in chosen]
        seconds = (time.perf_counter() - start) / seeds
        alone = [trained_alone(experiment) for experiment in chosen]
    except AtollError as refusal:
        return f"{data} {method}: refused: {refusal}"
    remarks = dict.fromkeys(remark for result in results for remark in result.remarks)
    said = " ".join(remarks) or "-"
    return f"{data} {method}: {shown(results)}, alone {shown(alone)}, {seconds:.0f} s, {said}"


def shown(results: list[Result]) -> str:
    """The mean test score in percent, and its deviation over seeds."""
    scores = [100 * result.test_score for result in results]
    spread = f" ±{statistics.stdev(scores):.1f}" if len(scores) > 1 else ""
    return f"{statistics.mean(scores):.1f}{spread}"


def trained_alone(experiment: Experiment) -> Result:
    """``local`` with its defaults on the same data, split and cut, for as many rounds."""
    beside = replace(experiment, method=methods["local"]())
    if str(beside) not in _alone:
        _alone[str(beside)] = run(beside)
    return _alone[str(beside)]


def run(experiment: Experiment) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        return run_experiment(experiment, Path(folder) / "run", ledger=False)


if __name__ == "__main__":
    main()
