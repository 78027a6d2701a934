"""Scales of number columns: fitted to a party's training nodes, applied to all its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from atoll.data.table_numbers import Group


@dataclass(frozen=True)
class Scale:
    """The mean and deviation of a column's numbers; a deviation of 0 stands for a constant."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @classmethod
    def fitted(cls, values: np.ndarray) -> Self:
        deviation = values.std(axis=0)
        # The deviation of a constant column is rounding error, not always zero.
        varies = deviation > 1e-12 * np.abs(values).max(axis=0)
        mean = tuple(values.mean(axis=0).tolist())
        return cls(mean, tuple(np.where(varies, deviation, 0.0).tolist()))

    @classmethod
    def of(cls, values: np.ndarray, group: Group) -> Self:
        """A party's scale: that of its fitting rows, or of all its rows where it has none."""
        rows, fitting = group
        return cls.fitted(values[fitting if len(fitting) else rows])

    def apply(self, values: np.ndarray) -> np.ndarray:
        mean, deviation = np.array(self.mean), np.array(self.deviation)
        varies = deviation > 0
        scaled: np.ndarray = np.where(
            varies, (values - mean) / np.where(varies, deviation, 1.0), 0.0
        )
        return scaled


@dataclass(frozen=True)
class Scales:
    """A column's scales by party, and whose each row of a table is."""

    by_party: Mapping[str, Scale]
    whose: Sequence[str]

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Each row by its party's scale, or by the parties' mean scale where its own has none."""
        usual = Scale(
            tuple(np.mean([scale.mean for scale in self.by_party.values()], axis=0).tolist()),
            tuple(np.mean([scale.deviation for scale in self.by_party.values()], axis=0).tolist()),
        )
        whose = np.array(self.whose, dtype=str)
        result = np.empty_like(values)
        for party in np.unique(whose).tolist():
            rows = whose == party
            result[rows] = self.by_party.get(party, usual).apply(values[rows])
        return result


def scaled(values: np.ndarray, groups: Sequence[Group]) -> np.ndarray:
    """Numbers ``[n, w]``, each party's by the mean and deviation of its own fitting rows."""
    result = np.empty_like(values)
    for rows, fitting in groups:
        result[rows] = Scale.of(values, (rows, fitting)).apply(values[rows])
    return result
