"""Adam in one pass over parameters, gradients and moments.

Loops that read and write the same array do so under one name: LLVM makes vectors of a loop only
where it can tell that no two of its arrays overlap.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from atoll.kernels.sparse import sum_of_rows


@numba.njit(nogil=True, cache=True)
def constants_of(p, lr, beta1, beta2, eps, decay, step):
    """What the step number ``step`` multiplies by, as numbers like those of ``p``."""
    kind = p.dtype.type
    size, root = lr / (1 - beta1**step), math.sqrt(1 - beta2**step)
    return (
        kind(1 - beta1), kind(beta2), kind(1 - beta2), kind(size), kind(root), kind(eps),
        kind(decay),
    )  # fmt: skip


@numba.njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def moved(p, g, m, v, constants):
    """Where an entry and its moments go."""
    new1, keep2, new2, size, root, eps, decay = constants
    g += decay * p
    m += new1 * (g - m)
    v = keep2 * v + new2 * g * g
    return p - size * m / (math.sqrt(v) / root + eps), m, v


@numba.njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def _in_place(p, grad, mean, square, constants):
    for i in range(len(p)):
        p[i], mean[i], square[i] = moved(p[i], grad[i], mean[i], square[i], constants)


@numba.njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def _from(source, out, grad, mean, square, constants):
    for i in range(len(out)):
        out[i], mean[i], square[i] = moved(source[i], grad[i], mean[i], square[i], constants)


@numba.njit(nogil=True, cache=True)
def adam(p, grad, mean, square, lr, beta1, beta2, eps, decay, step, first, last):
    """Step number ``step`` of entries ``first`` to ``last``, in place; all arrays are flat."""
    part = p[first:last]
    constants = constants_of(p, lr, beta1, beta2, eps, decay, step)
    _in_place(part, grad[first:last], mean[first:last], square[first:last], constants)


@numba.njit(nogil=True, cache=True)
def adam_of_product(
    pointers, indices, data, errors, own, common, rows, alike, mean, square,
    lr, beta1, beta2, eps, decay, step, first, last,
):  # fmt: skip
    """The same for rows ``first`` to ``last`` of ``own [R, h]``, where a gradient is a product.

    The gradient ``A E``, ``[R, n] @ [n, h]``, is never written: a row of it is made, used and
    forgotten. Where rows are still ``alike`` for everybody, own row r is what follows from the
    common row ``rows[r]``, and what was in its place before does not matter.
    """
    constants = constants_of(own, lr, beta1, beta2, eps, decay, step)
    grad = np.empty(own.shape[1], dtype=own.dtype)
    for r in range(first, last):
        sum_of_rows(data, indices, pointers[r], pointers[r + 1], errors, grad, 0)
        if alike:
            _from(common[rows[r]], own[r], grad, mean[r], square[r], constants)
        else:
            _in_place(own[r], grad, mean[r], square[r], constants)
