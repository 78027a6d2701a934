"""The products of K clients' rows with matrices of their own."""

from __future__ import annotations

import numba
import numpy as np

from atoll.kernels.turned import turned
from atoll.kernels.vectors import (
    TILE_ROWS,
    TILE_VECTORS,
    first_row,
    first_tile,
    lanes_of,
    row_narrow,
    row_wide,
    tile_narrow,
    tile_wide,
)

# Terms that are summed for all rows before the next ones, where A is read across its rows: these
# lie far apart in memory, and of so few the processor keeps what the rows beside need.
TERMS_AT_ONCE = 32


@numba.njit(nogil=True, cache=True)
def _product(a, from_a, down, along, rows, terms, b, from_b, wide_b, columns, out, to, wide):
    """``A B`` with at least as many columns as a vector has numbers; see ``vectors._tile``."""
    lanes = lanes_of(b)
    block = TILE_VECTORS * lanes
    at_once = TERMS_AT_ONCE if along > down else max(terms, 1)
    j = 0
    while j < columns:
        full = j + block <= columns
        if not full and j + lanes > columns:
            j = columns - lanes  # the last vector once more, as far back as it must begin
        for p in range(0, max(terms, 1), at_once):
            _columns(
                a, from_a + p * along, down, along, rows, min(at_once, terms - p),
                b, from_b + p * wide_b + j, wide_b, out, to + j, wide, full, p > 0,
            )  # fmt: skip
        j += block if full else lanes


@numba.njit(nogil=True, cache=True)
def _columns(a, from_a, down, along, rows, terms, b, b_j, wide_b, out, to, wide, full, more):
    """Some terms of all rows of one block of columns."""
    i = 0
    if full and rows >= TILE_ROWS:
        first_tile(a, from_a, down, along, terms, b, b_j, wide_b, out, to, wide, more)
        i = TILE_ROWS
    elif full and rows:
        first_row(a, from_a, down, along, terms, b, b_j, wide_b, out, to, wide, more)
        i = 1
    while i < rows:
        a_i, out_i = from_a + i * down, to + i * wide
        if i + TILE_ROWS <= rows:
            if full:
                tile_wide(a, a_i, down, along, terms, b, b_j, wide_b, out, out_i, wide, more)
            else:
                tile_narrow(a, a_i, down, along, terms, b, b_j, wide_b, out, out_i, wide, more)
            i += TILE_ROWS
        else:
            if full:
                row_wide(a, a_i, down, along, terms, b, b_j, wide_b, out, out_i, wide, more)
            else:
                row_narrow(a, a_i, down, along, terms, b, b_j, wide_b, out, out_i, wide, more)
            i += 1


@numba.njit(nogil=True, cache=True)
def _small_product(a, from_a, down, along, rows, terms, b, from_b, columns, out, to):
    """``A B`` with fewer columns than a vector has numbers: with room for more, then cut."""
    lanes = lanes_of(b)
    room = np.zeros(terms * lanes, dtype=b.dtype)
    for p in range(terms):
        for j in range(columns):
            room[p * lanes + j] = b[from_b + p * columns + j]
    made = np.empty(rows * lanes, dtype=b.dtype)
    _product(a, from_a, down, along, rows, terms, room, 0, lanes, lanes, made, 0, lanes)
    for i in range(rows):
        for j in range(columns):
            out[to + i * columns + j] = made[i * lanes + j]


@numba.njit(nogil=True, cache=True)
def _any_product(a, from_a, down, along, rows, terms, b, from_b, columns, out, to):
    if columns < lanes_of(b):
        _small_product(a, from_a, down, along, rows, terms, b, from_b, columns, out, to)
    else:
        _product(a, from_a, down, along, rows, terms, b, from_b, columns, columns, out, to, columns)


@numba.njit(nogil=True, cache=True)
def times(h, weight_K, start_K, out, first, last):
    """``h_k W_k`` of clients ``first`` to ``last``, ``[N, in], [K, in, out] -> [N, out]``.

    The rows of client k are those from ``start_K[k]`` to ``start_K[k + 1]``.
    """
    width, columns = weight_K.shape[1], weight_K.shape[2]
    flat_h, flat_w, flat_out = h.reshape(-1), weight_K.reshape(-1), out.reshape(-1)
    for k in range(first, last):
        i, rows = start_K[k], start_K[k + 1] - start_K[k]
        _any_product(
            flat_h, i * width, width, 1, rows, width,
            flat_w, k * width * columns, columns, flat_out, i * columns,
        )  # fmt: skip


@numba.njit(nogil=True, cache=True)
def same_times(h, weight_K, out, first, last):
    """``h W_k`` of clients ``first`` to ``last``, ``[n, in], [K, in, out] -> [K, n, out]``."""
    rows, width, columns = len(h), weight_K.shape[1], weight_K.shape[2]
    flat_h, flat_w, flat_out = h.reshape(-1), weight_K.reshape(-1), out.reshape(-1)
    for k in range(first, last):
        _any_product(
            flat_h, 0, width, 1, rows, width,
            flat_w, k * width * columns, columns, flat_out, k * rows * columns,
        )  # fmt: skip


@numba.njit(nogil=True, cache=True)
def times_transposed(g, weight_K, start_K, out, first, last):
    """``g_k W_k^T`` of clients ``first`` to ``last``, ``[N, out], [K, in, out] -> [N, in]``."""
    width, columns = weight_K.shape[1], weight_K.shape[2]
    flat_g, flat_w, flat_out = g.reshape(-1), weight_K.reshape(-1), out.reshape(-1)
    other = np.empty(width * columns, dtype=g.dtype)
    for k in range(first, last):
        i, rows = start_K[k], start_K[k + 1] - start_K[k]
        if rows:
            turned(flat_w, k * width * columns, width, columns, other)
            _any_product(
                flat_g, i * columns, columns, 1, rows, columns,
                other, 0, width, flat_out, i * width,
            )  # fmt: skip


@numba.njit(nogil=True, cache=True)
def outer(h, g, start_K, out_K, first, last):
    """``h_k^T g_k`` of clients ``first`` to ``last``, ``[N, in], [N, out] -> [K, in, out]``."""
    width, columns = h.shape[1], g.shape[1]
    flat_h, flat_g, flat_out = h.reshape(-1), g.reshape(-1), out_K.reshape(-1)
    for k in range(first, last):
        i, rows = start_K[k], start_K[k + 1] - start_K[k]
        _any_product(
            flat_h, i * width, 1, width, width, rows,
            flat_g, i * columns, columns, flat_out, k * width * columns,
        )  # fmt: skip
