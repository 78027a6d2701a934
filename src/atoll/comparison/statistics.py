"""Means over seeds and differences between two columns of them, with Student's t."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scipy.special import stdtr, stdtrit

Verdict = Literal["join", "stay", "unclear"]
# Two seeds give an interval in name only: its t is 12.7.
FEWEST_SEEDS = 3


def mean(values: Sequence[float]) -> float:
    """NaN where there is nothing to average."""
    return statistics.fmean(values) if values else math.nan


def std(values: Sequence[float]) -> float:
    """The standard deviation over seeds (n - 1), zero for a single one."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def half_interval(values: Sequence[float]) -> float:
    """Half the 95 % interval of the mean, by Student's t; NaN below two values."""
    n = len(values)
    if n < 2:
        return math.nan
    return float(stdtrit(n - 1, 0.975)) * std(values) / math.sqrt(n)


@dataclass(frozen=True)
class Difference:
    """Paired differences, seed by seed: their mean, its 95 % interval and p of a paired t-test.

    ``low``, ``high`` and ``p`` are None where there are too few seeds; p is None, too, where all
    differences are the same, since t has no value there.
    """

    seeds: int
    mean: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None

    def verdict(self, less_is_better: bool = False) -> Verdict:
        """``join`` where the whole interval says better, ``stay`` where worse, else ``unclear``."""
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
            return "unclear"
        return "join" if (self.low > 0) != less_is_better else "stay"


def difference(gaps: Sequence[float]) -> Difference:
    """What the differences of all seeds say together."""
    n = len(gaps)
    if n < FEWEST_SEEDS:
        return Difference(n, mean(gaps) if gaps else None)
    middle, half = mean(gaps), half_interval(gaps)
    return Difference(n, middle, middle - half, middle + half, p_value(gaps))


def p_value(gaps: Sequence[float]) -> float | None:
    """Of a two-sided paired t-test; None where t has no value."""
    n, spread = len(gaps), std(gaps)
    if n < 2 or spread == 0:
        return None
    t = mean(gaps) / (spread / math.sqrt(n))
    return float(2 * stdtr(n - 1, -abs(t)))
