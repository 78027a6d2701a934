"""Figures of confusion tables, of many small ones at once."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(nogil=True, cache=True)
def figures(y, guess, in_cell, classes, positive, out):
    """Balanced accuracy, macro F1 and the F1 of one class of every cell, in ``out [m, :3]``.

    Nodes have classes ``y [n]``, were taken for ``guess [n]``, and count in their cells. What a
    cell does not have stays as it is in ``out``; of ``positive`` below zero there is no F1.
    """
    tables = np.zeros(len(out) * classes * classes, dtype=np.int64)
    for i in range(len(y)):
        tables[(in_cell[i] * classes + y[i]) * classes + guess[i]] += 1
    for cell in range(len(out)):
        table = tables[cell * classes * classes : (cell + 1) * classes * classes]
        recalls, f1s = 0.0, 0.0
        known, seen = 0, 0
        for c in range(classes):
            have, taken = 0, 0
            for other in range(classes):
                have += table[c * classes + other]
                taken += table[other * classes + c]
            right = table[c * classes + c]
            if have > 0:
                known += 1
                recalls += right / have
            if have + taken > 0:
                seen += 1
                f1s += 2 * right / (have + taken)
            if c == positive and have > 0:
                out[cell, 2] = 2 * right / (have + taken)
        if known > 0:
            out[cell, 0] = recalls / known
        if seen > 0:
            out[cell, 1] = f1s / seen
