"""Cells of a paper's table: our numbers beside the paper's."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from atoll.comparison.statistics import half_interval
from atoll.errors import AtollError
from atoll.experiment.config import Table, describe, resolve
from atoll.reproduction.recipe import Target


@dataclass(frozen=True)
class Cell:
    """What came of a target: one value per seed, and all it takes to run it again.

    ``settings`` are those of the first seed. ``array`` is what a plot needs beyond the numbers: a
    curve over rounds, mean over seeds, or a matrix, of the first seed. Where settings were chosen
    by a search, ``budget`` is what it could spend, ``chosen`` what it found, and ``val`` the
    validation score that counted; ``costs`` are means over seeds, of bytes and seconds of one run.
    """

    target: Target
    values: tuple[float, ...]
    best_rounds: tuple[int, ...]
    seconds: float
    settings: Table
    environment: dict[str, Any]
    array: list[Any] | None = None
    budget: Mapping[str, Any] | None = None
    chosen: Mapping[str, Any] = field(default_factory=dict)
    val: float | None = None
    costs: Mapping[str, float] = field(default_factory=dict)

    @property
    def row(self) -> str:
        return self.target.row

    @property
    def column(self) -> str:
        return self.target.column

    @property
    def paper(self) -> float | None:
        return self.target.paper

    @cached_property
    def ours(self) -> float:
        """The mean over seeds."""
        return statistics.mean(self.values)

    @cached_property
    def std(self) -> float:
        """The standard deviation over seeds."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    @property
    def interval(self) -> float:
        """Half the 95 % interval of the mean over seeds, by Student's t."""
        return half_interval(self.values)

    @property
    def difference(self) -> float | None:
        return None if self.paper is None else self.ours - self.paper

    @property
    def outside(self) -> bool:
        """Whether it is off the paper's number by more than the recipe allows."""
        return self.off and not (self.target.above == "fine" and (self.difference or 0.0) > 0)

    @property
    def off(self) -> bool:
        """Whether it is off the paper's number by more than is allowed, above or below."""
        return self.difference is not None and abs(self.difference) > self.target.tolerance

    @cached_property
    def is_current(self) -> bool:
        """Whether it was run with what the recipe says now."""
        try:
            # Resolved anew, settings that have come since have their defaults.
            before = describe(resolve(self.settings))
        except AtollError:
            return False
        budget = None if self.target.budget is None else self.target.budget.plain()
        now = describe(self.target.experiment(0, self.chosen))
        return json.dumps([before, self.budget], sort_keys=True) == json.dumps(
            [now, budget], sort_keys=True
        )
