"""Sums over all pairs of a client's nodes, none of which is kept (AdaFGL's signed propagation).

Nodes are columns, ``[C, n]``: pairs of one node with a block of others lie beside each other.
"""

from __future__ import annotations

import numba
import numpy as np

# Pairs of one node that exist at a time: a few rows of them stay in the nearest cache.
_BLOCK = 1024
# Sums over pairs may be taken in any order, which is what lets them fill vectors.
_FAST = {"reassoc", "contract", "nsz"}


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _likeness(unit, v, beta, level, i, begin, width, alike, R):
    """``R_ij = beta [unit_i unit_j > level] + (1 - beta) v_i v_j`` for j from ``begin`` on."""
    one = v.dtype.type(1)
    for j in range(width):
        alike[j] = 0
        R[j] = 0
    for c in range(len(v)):
        unit_i, v_i = unit[c, i], v[c, i]
        unit_c, v_c = unit[c, begin : begin + width], v[c, begin : begin + width]
        for j in range(width):
            alike[j] += unit_i * unit_c[j]
            R[j] += v_i * v_c[j]
    for j in range(width):
        R[j] = (beta if alike[j] > level else beta * 0) + (one - beta) * R[j]


@numba.njit(nogil=True, cache=True)
def largest(unit, v, beta, level):
    """Where R is largest off its diagonal, ``i < j``; of equal ones the first, row by row."""
    n = v.shape[1]
    alike, R = np.empty((2, _BLOCK), v.dtype)
    best, at_i, at_j = v.dtype.type(-np.inf), 0, 1
    for i in range(n - 1):
        for begin in range(i + 1, n, _BLOCK):
            width = min(_BLOCK, n - begin)
            _likeness(unit, v, beta, level, i, begin, width, alike, R)
            top = R[0]
            for j in range(1, width):
                top = max(top, R[j])
            if top > best:
                best, at_i = top, i
                for j in range(width):
                    if R[j] == top:
                        at_j = begin + j
                        break
    return at_i, at_j


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def signed_sums(e, v, unit, limits, out_above, out_below, first, last):
    """``sum_j max(Q_ij, 0) e_j`` and ``sum_j max(-Q_ij, 0) e_j`` of nodes ``first`` to ``last``.

    ``limits`` has beta, level, mean, height and floor: Q is ``(R - mean) / height`` where R is
    above the mean, ``-R / floor`` elsewhere, and one on its diagonal.
    """
    beta, level, mean, height, floor = limits
    n, zero, one = v.shape[1], v.dtype.type(0), v.dtype.type(1)
    per_height, per_floor = one / height, one / floor
    alike, above, below = np.empty((3, _BLOCK), v.dtype)
    for i in range(first, last):
        for c in range(len(e)):
            out_above[c, i] = e[c, i]
            out_below[c, i] = 0
        for begin in range(0, n, _BLOCK):
            width = min(_BLOCK, n - begin)
            _likeness(unit, v, beta, level, i, begin, width, alike, above)
            for j in range(width):
                R, high = above[j], above[j] > mean
                above[j] = (R - mean) * per_height if high else zero
                below[j] = zero if high else R * per_floor
            if begin <= i < begin + width:
                above[i - begin], below[i - begin] = 0, 0
            for c in range(len(e)):
                e_c, up, down = e[c, begin : begin + width], zero, zero
                for j in range(width):
                    up += above[j] * e_c[j]
                    down += below[j] * e_c[j]
                out_above[c, i] += up
                out_below[c, i] += down


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def signed_sums_back(e, v, unit, g_above, g_below, limits, out_e, out_v, out_limits, first, last):
    """Gradients of e and v ``[C, n]``, and each node's part of those of mean, height and floor.

    R and Q are symmetric, so a node's gradient is a sum over its own pairs alone.
    """
    beta, level, mean, height, floor = limits
    n, zero, one = v.shape[1], v.dtype.type(0), v.dtype.type(1)
    per_height, per_floor = one / height, one / floor
    alike, R, up, down, both = np.empty((5, _BLOCK), v.dtype)
    for i in range(first, last):
        by_mean, by_height, by_floor = 0.0, 0.0, 0.0
        for c in range(len(e)):
            out_e[c, i] = g_above[c, i]
            out_v[c, i] = 0
        for begin in range(0, n, _BLOCK):
            width = min(_BLOCK, n - begin)
            end = begin + width
            _likeness(unit, v, beta, level, i, begin, width, alike, R)
            # up and down: by Q_ij through the sums of node i; both: those of node j besides.
            for j in range(width):
                up[j], down[j], both[j] = 0, 0, 0
            for c in range(len(e)):
                a_i, b_i, e_i = g_above[c, i], g_below[c, i], e[c, i]
                e_c, a_c, b_c = e[c, begin:end], g_above[c, begin:end], g_below[c, begin:end]
                for j in range(width):
                    up[j] += a_i * e_c[j]
                    down[j] += b_i * e_c[j]
                    both[j] += (a_c[j] if R[j] > mean else b_c[j]) * e_i
            if begin <= i < end:
                j = i - begin
                up[j], down[j], both[j] = 0, 0, 0
            lean, tall, low = zero, zero, zero
            for j in range(width):
                high, by_i, by_j = R[j] > mean, up[j], both[j]
                positive = (R[j] - mean) * per_height if high else zero
                negative = zero if high else R[j] * per_floor
                lean += by_i if high else zero
                tall += by_i * positive
                low += down[j] * negative
                both[j] = (by_j + by_i) * per_height if high else (by_j + down[j]) * per_floor
                up[j], down[j] = positive, negative
            by_mean -= lean * per_height
            by_height -= tall * per_height
            by_floor -= low * per_floor
            if begin <= i < end:
                up[i - begin], down[i - begin] = 0, 0
            for c in range(len(e)):
                a_c, b_c, v_c = g_above[c, begin:end], g_below[c, begin:end], v[c, begin:end]
                to_e, to_v = zero, zero
                for j in range(width):
                    to_e += up[j] * a_c[j] + down[j] * b_c[j]
                    to_v += both[j] * v_c[j]
                out_e[c, i] += to_e
                out_v[c, i] += (one - beta) * to_v
        out_limits[0, i], out_limits[1, i], out_limits[2, i] = by_mean, by_height, by_floor
