"""Adam in one pass over parameters, gradients and moments."""

from __future__ import annotations

import math

import numba
import numpy as np

from atoll.kernels.sparse import sum_of_rows
from atoll.kernels.vector_steps import vector_of_adam
from atoll.kernels.vectors import lanes_of


@numba.njit(nogil=True, cache=True)
def constants_of(p, lr, beta1, beta2, eps, decay, step):
    """What the step number ``step`` multiplies by, as numbers like those of ``p``."""
    kind = p.dtype.type
    root = math.sqrt(1 - beta2**step)
    return (
        kind(1 - beta1), kind(beta2), kind(1 - beta2), kind(lr * root / (1 - beta1**step)),
        kind(eps * root), kind(decay),
    )  # fmt: skip


@numba.njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def moved(p, g, m, v, constants):
    """Where an entry and its moments go.

    What corrects the second moment, ``sqrt(v) / root + eps``, is in ``size`` and ``eps``: a
    division takes as long as all else that is done for an entry.
    """
    new1, keep2, new2, size, eps, decay = constants
    g += decay * p
    m += new1 * (g - m)
    v = keep2 * v + new2 * g * g
    return p - size * m / (math.sqrt(v) + eps), m, v


@numba.njit(nogil=True, cache=True)
def _steps(source, at_source, grad, at_grad, out, mean, square, at, count, constants):
    """So many entries from a place on, each array from its own; arrays are flat."""
    lanes = lanes_of(out)
    stacks = (source, out, mean, square)
    j = 0
    while j + lanes <= count:
        vector_of_adam(grad, at_grad + j, stacks, at_source + j, at + j, constants)
        j += lanes
    while j < count:
        i = at + j
        out[i], mean[i], square[i] = moved(
            source[at_source + j], grad[at_grad + j], mean[i], square[i], constants
        )
        j += 1


@numba.njit(nogil=True, cache=True)
def adam(p, grad, mean, square, lr, beta1, beta2, eps, decay, step, first, last):
    """Step number ``step`` of entries ``first`` to ``last``, in place; all arrays are flat."""
    constants = constants_of(p, lr, beta1, beta2, eps, decay, step)
    _steps(p, first, grad, first, p, mean, square, first, last - first, constants)


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
    width = own.shape[1]
    grad = np.empty(width, dtype=own.dtype)
    flat_own, flat_mean, flat_square = own.reshape(-1), mean.reshape(-1), square.reshape(-1)
    source = common.reshape(-1) if alike else flat_own
    for r in range(first, last):
        sum_of_rows(data, indices, pointers[r], pointers[r + 1], errors, grad, 0)
        at = r * width
        begun = rows[r] * width if alike else at
        _steps(source, begun, grad, 0, flat_own, flat_mean, flat_square, at, width, constants)
