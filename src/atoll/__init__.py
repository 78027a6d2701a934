"""Atoll: federated learning on graphs."""

import os as _os

# Spinning OpenMP threads slow a shared machine a hundredfold. Read once, when torch is loaded.
_os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Large tensors in large pages: stacks of models are passed over in a twentieth less time.
_os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atoll.api import compare as compare
    from atoll.api import embed as embed
    from atoll.api import export as export
    from atoll.api import predict as predict
    from atoll.api import resume as resume
    from atoll.api import run as run
    from atoll.api import study as study
    from atoll.api import tune as tune
    from atoll.cohort import Cohort as Cohort
    from atoll.comparison.outcome import Comparison as Comparison
    from atoll.errors import AtollError as AtollError
    from atoll.experiment.callbacks import Callback as Callback
    from atoll.experiment.config import Experiment as Experiment
    from atoll.experiment.config import Run as Run
    from atoll.experiment.result import Result as Result
    from atoll.graph import Graph as Graph
    from atoll.tabulation.outcome import Study as Study
    from atoll.tuning.outcome import Tuning as Tuning

_HOME = {
    "AtollError": "atoll.errors",
    "Callback": "atoll.experiment.callbacks",
    "Cohort": "atoll.cohort",
    "Comparison": "atoll.comparison.outcome",
    "Experiment": "atoll.experiment.config",
    "Graph": "atoll.graph",
    "Result": "atoll.experiment.result",
    "Run": "atoll.experiment.config",
    "Study": "atoll.tabulation.outcome",
    "Tuning": "atoll.tuning.outcome",
    "compare": "atoll.api",
    "embed": "atoll.api",
    "export": "atoll.api",
    "predict": "atoll.api",
    "resume": "atoll.api",
    "run": "atoll.api",
    "study": "atoll.api",
    "tune": "atoll.api",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Import on first use: ``import atoll`` and ``atoll --help`` stay quick."""
    if name not in _HOME:
        raise AttributeError(f"module 'atoll' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
