"""Looks at values: whether they are numbers of an ordinary size."""

from __future__ import annotations

import numba


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _squares(source, out):
    total = source.dtype.type(0)
    for i in range(len(source)):
        x = source[i]
        out[i] = x
        total += x * x
    return total


@numba.njit(nogil=True, cache=True)
def copied(source_K, out_K, squares_K):
    """``source [K, n]`` into ``out``, and the sum of each row's squares ``[K]``.

    What is not a number or infinite makes the sum so, and what is too large for a square may.
    """
    for k in range(len(source_K)):
        squares_K[k] = _squares(source_K[k], out_K[k])


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def square(values):
    """The sum of the squares ``[n] -> []``, which survives as little as that of a row above."""
    total = values.dtype.type(0)
    for i in range(len(values)):
        total += values[i] * values[i]
    return total
