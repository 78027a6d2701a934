"""Some of each row's entries, drawn without repetition."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Drawn(NamedTuple):
    """Entries of a CSR matrix: their places in its arrays, the row of each as a position among the
    rows that were looked at, and how many times as many entries each of those rows has ``[R]``."""

    entries: np.ndarray
    row: np.ndarray
    share: np.ndarray


def drawn_entries(
    pointers: np.ndarray, rows: np.ndarray, most: int, stream: np.random.Generator
) -> Drawn:
    """At most ``most`` entries of each row, every set of so many being as likely; 0: all of them.

    Nothing is drawn for rows that have no more, and the work depends on ``most`` and not on how
    many entries a row has.
    """
    first = pointers[rows].astype(np.int64)
    count = pointers[rows + 1] - first
    many = count > most if most else np.zeros(len(rows), dtype=bool)
    taken = np.where(many, most, count)
    row = np.repeat(np.arange(len(rows)), taken)
    place = np.arange(len(row)) - np.repeat(np.cumsum(taken) - taken, taken)
    if many.any():
        place[many[row]] = _subsets(count[many], most, stream).ravel()
    return Drawn(first[row] + place, row, np.divide(count, np.maximum(taken, 1)))


def _subsets(sizes: np.ndarray, m: int, stream: np.random.Generator) -> np.ndarray:
    """``m`` of the numbers below each size, ``[R] -> [R, m]``: Floyd's algorithm (Bentley and
    Floyd, 1987), one draw per number for all rows at once."""
    chosen = np.empty((len(sizes), m), dtype=np.int64)
    coins = stream.random((len(sizes), m))
    for t in range(m):
        last = sizes - m + t
        guess = (coins[:, t] * (last + 1)).astype(np.int64)
        known = (chosen[:, :t] == guess[:, None]).any(axis=1)
        chosen[:, t] = np.where(known, last, guess)
    return chosen
