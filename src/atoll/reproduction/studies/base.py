"""Studies: from an experiment to named numbers, which recipes compare with a paper's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from atoll.errors import unknown
from atoll.experiment.config import Experiment
from atoll.registry import Registry

studies: Registry[Study] = Registry("study", "atoll.reproduction.studies")


@dataclass(frozen=True)
class Findings:
    """Numbers by name, and arrays for plots: a curve ``[rounds]`` or a matrix."""

    figures: dict[str, float]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    best_round: int = 0


class Study(ABC):
    """How the cells of a table are made."""

    registered_name: ClassVar[str]
    # Columns name methods and their settings; otherwise they name figures.
    trains: ClassVar[bool] = True
    # What the numbers are, for a table's caption.
    caption: ClassVar[str]

    @abstractmethod
    def findings(self, experiment: Experiment) -> Findings: ...

    def default_figure(self, experiment: Experiment) -> str:
        """The figure of a column that names none."""
        return f"test_{experiment.method.task.metric}"

    def figure(self, found: Findings, name: str) -> float:
        if name not in found.figures:
            raise unknown("figure", name, found.figures)
        return found.figures[name]
