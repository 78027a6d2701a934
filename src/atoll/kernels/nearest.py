"""Rows of a sparse matrix that are nearest to given points."""

from __future__ import annotations

import numba
import numpy as np

from atoll.kernels.sparse import sum_of_rows


@numba.njit(nogil=True, cache=True)
def nearest_row(pointers, indices, data, squares, points, at):
    """The row ``x_u`` nearest to each of some points ``[f, m]``, its number in ``at [m]``.

    The least ``|x_u|^2 - 2 x_u r``, with ``|x_u|^2`` in ``squares [n]``; of equal ones the first.
    """
    two = points.dtype.type(2)
    products = np.empty(points.shape[1], dtype=points.dtype)
    least = np.full_like(products, np.inf)
    at[:] = 0
    for u in range(len(squares)):
        sum_of_rows(data, indices, pointers[u], pointers[u + 1], points, products, 0)
        own = squares[u]
        for j in range(len(products)):
            value = own - two * products[j]
            nearer = value < least[j]
            least[j] = value if nearer else least[j]
            at[j] = u if nearer else at[j]


@numba.njit(nogil=True, cache=True)
def from_row(pointers, indices, data, at, points, out):
    """``2 (r_j - x_u)`` with ``u = at[j]``, for the points ``r [m, f]``."""
    two = points.dtype.type(2)
    for j in range(len(points)):
        point, row = points[j], out[j]
        for i in range(len(row)):
            row[i] = two * point[i]
        for p in range(pointers[at[j]], pointers[at[j] + 1]):
            row[indices[p]] -= two * data[p]


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def _squared_distance(one, other):
    total = one.dtype.type(0)
    for i in range(len(one)):
        apart = one[i] - other[i]
        total += apart * apart
    return total


@numba.njit(nogil=True, cache=True)
def nearest_choice(rows, owner, count, start, choices, x, at, distance):
    """The nearest of some rows of x to each row ``[R, f]``; of equal ones the first.

    Row j may choose among ``choices[start[v] : start[v] + count[v]]`` with ``v = owner[j]``, at
    least one. Its choice goes to ``at [R]``, the squared distance to ``distance [R]``.
    """
    for j in range(len(rows)):
        first, last = start[owner[j]], start[owner[j]] + count[owner[j]]
        best, least = choices[first], _squared_distance(rows[j], x[choices[first]])
        for c in range(first + 1, last):
            found = _squared_distance(rows[j], x[choices[c]])
            if found < least:
                best, least = choices[c], found
        at[j], distance[j] = best, least
