"""Many comparisons: correction of p values, and ranks of several columns over rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# Fewer rows give a test that can hardly find anything: with five, Wilcoxon's p is at least 0.06.
FEWEST_ROWS = 6
_LEVEL = 0.05


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Holm's correction: the i-th smallest of n is multiplied by n - i + 1, never falling.

    Tests without a p are no part of the family.
    """
    known = sorted((value, place) for place, value in enumerate(p) if value is not None)
    found: list[float | None] = [None] * len(p)
    largest = 0.0
    for i, (value, place) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - i) * value))
        found[place] = largest
    return found


def ranks_of(scores: np.ndarray, less_is_better: bool = False) -> np.ndarray:
    """``[rows, columns]``: the best of a row has rank 1; equal ones share their mean rank."""
    from scipy.stats import rankdata

    found: np.ndarray = rankdata(scores if less_is_better else -scores, axis=1)
    return found


@dataclass(frozen=True)
class Ranking:
    """Columns ranked over rows, each row counting once.

    ``friedman`` is p of the test that all columns are alike (three columns at least);
    ``critical`` the difference of mean ranks beyond which two differ, by Nemenyi's test at 0.05;
    ``wilcoxon`` has p of the signed-rank test of each pair, corrected by Holm. They are None and
    empty where there are too few rows.
    """

    columns: tuple[str, ...]
    rows: int
    mean: tuple[float, ...]
    friedman: float | None = None
    critical: float | None = None
    wilcoxon: tuple[tuple[str, str, float | None], ...] = ()

    def groups(self) -> list[tuple[float, float]]:
        """From one mean rank to another: columns in between do not differ; the widest ones."""
        if self.critical is None:
            return []
        ordered = sorted(self.mean)
        spans: list[tuple[float, float]] = []
        for i, low in enumerate(ordered):
            reached = [high for high in ordered[i + 1 :] if high - low <= self.critical]
            if reached and (not spans or reached[-1] > spans[-1][1]):
                spans.append((low, reached[-1]))
        return spans


def ranking(columns: Sequence[str], scores: np.ndarray, less_is_better: bool = False) -> Ranking:
    """``scores [rows, columns]``; rows that lack a score are left out."""
    whole = scores[~np.isnan(scores).any(axis=1)]
    n, k = whole.shape
    if n == 0 or k < 2:
        return Ranking(tuple(columns), n, (math.nan,) * k)
    mean = tuple(float(value) for value in ranks_of(whole, less_is_better).mean(axis=0))
    if n < FEWEST_ROWS:
        return Ranking(tuple(columns), n, mean)
    pairs = list(itertools.combinations(range(k), 2))
    corrected = holm([_wilcoxon(whole[:, a] - whole[:, b]) for a, b in pairs])
    tested = tuple((columns[a], columns[b], p) for (a, b), p in zip(pairs, corrected, strict=True))
    friedman = _friedman(whole) if k > 2 else None
    return Ranking(tuple(columns), n, mean, friedman, critical_difference(k, n), tested)


def critical_difference(columns: int, rows: int) -> float:
    """Nemenyi's: ``q sqrt(k (k + 1) / (6 n))``, q the studentized range over the root of 2."""
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - _LEVEL, columns, math.inf)) / math.sqrt(2)
    return q * math.sqrt(columns * (columns + 1) / (6 * rows))


def _friedman(scores: np.ndarray) -> float | None:
    from scipy.stats import friedmanchisquare

    if (scores == scores[:, :1]).all():
        return None
    return float(friedmanchisquare(*scores.T).pvalue)


def _wilcoxon(gaps: np.ndarray) -> float | None:
    from scipy.stats import wilcoxon

    return float(wilcoxon(gaps).pvalue) if (gaps != 0).any() else None
