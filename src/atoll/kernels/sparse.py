"""A sparse matrix times a dense one."""

from __future__ import annotations

import numba

from atoll.kernels.vectors import ROW_VECTORS, gather_many, gather_one, gather_some, lanes_of


@numba.njit(nogil=True, cache=True)
def sum_of_rows(data, indices, first, last, rows, out, to):
    """``out[to : to + h] = sum_p data[p] rows[indices[p]]``, p from first to last; out is flat.

    All numbers are of one type.
    """
    width, lanes = rows.shape[1], lanes_of(rows)
    if width < lanes:  # no vector would fit: it would begin before its row
        for j in range(width):
            out[to + j] = 0
        for p in range(first, last):
            for j in range(width):
                out[to + j] += data[p] * rows[indices[p], j]
        return
    many, some = ROW_VECTORS * lanes, ROW_VECTORS // 2 * lanes
    j = 0
    while j + many <= width:
        gather_many(data, indices, first, last, rows, j, out, to + j)
        j += many
    while j + some <= width:
        gather_some(data, indices, first, last, rows, j, out, to + j)
        j += some
    while j + lanes <= width:
        gather_one(data, indices, first, last, rows, j, out, to + j)
        j += lanes
    if j < width:  # the last vector once more, as far back as it must begin
        j = width - lanes
        gather_one(data, indices, first, last, rows, j, out, to + j)


@numba.njit(nogil=True, cache=True)
def csr_product(pointers, indices, data, dense, out, first, last):
    """Rows ``first`` to ``last`` of ``A X``, ``[n, m] @ [m, h]``, in the same rows of ``out``."""
    flat = out.reshape(-1)
    width = dense.shape[1]
    for i in range(first, last):
        sum_of_rows(data, indices, pointers[i], pointers[i + 1], dense, flat, i * width)
