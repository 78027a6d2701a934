"""Weights with masks: what counts of them, and a step of Adam for both in one pass."""

from __future__ import annotations

import numba
import numpy as np

from atoll.kernels.adam import constants_of, moved
from atoll.kernels.sparse import sum_of_rows
from atoll.kernels.vector_steps import vector_of_masked
from atoll.kernels.vectors import lanes_of


@numba.njit(nogil=True, cache=True)
def thresholded_product(w, mask, threshold, theta, kept):
    """``kept = |mask| >= threshold``, ``theta = w mask`` where kept and else 0; arrays are flat.

    What is not a number is not kept, and stays in the product.
    """
    for i in range(len(w)):
        m = mask[i]
        above = abs(m) >= threshold
        kept[i] = above
        theta[i] = w[i] * (m if above else m * 0)


@numba.njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def _entry(grad, at_grad, stacks, kept, at, constants, pull, shrink, threshold):
    """One entry, for what is left of a row behind its last whole vector."""
    source, given, w, mask, mean_w, square_w, mean_mask, square_mask, theta = stacks
    old, m = source[at], mask[at]
    g = grad[at_grad] + pull * (old * m - given[at])
    of_mask = g * old + (shrink if m > 0 else (-shrink if m < 0 else m * 0))
    w[at], mean_w[at], square_w[at] = moved(old, g * m, mean_w[at], square_w[at], constants)
    m, mean_mask[at], square_mask[at] = moved(m, of_mask, mean_mask[at], square_mask[at], constants)
    above = abs(m) >= threshold
    mask[at], kept[at] = m, above
    theta[at] = w[at] * (m if above else m * 0)


@numba.njit(nogil=True, cache=True)
def adam_of_masked(
    pointers, indices, data, errors, grads, stacks, kept, pull, shrink, threshold,
    lr, beta1, beta2, eps, decay, step, first, last,
):  # fmt: skip
    """Step number ``step`` of Adam for weights and masks ``[R, h]``, rows ``first`` to ``last``.

    ``stacks`` are source, given, w, mask, mean and square of w, of the mask, and theta, each flat.
    The loss is one of ``theta = w mask`` with the gradient ``grads [R, h]``, or ``A E`` where that
    has no rows, plus ``pull |theta - given|^2 / 2 + shrink |mask|``. Weights go from ``source``,
    which may be ``given`` or ``w`` itself, to ``w``; masks move where they are, and ``theta`` and
    ``kept`` are what :func:`thresholded_product` then makes of both.
    """
    constants = constants_of(errors, lr, beta1, beta2, eps, decay, step)
    kind = errors.dtype.type
    penalties = kind(pull), kind(shrink), kind(threshold)
    width, lanes = grads.shape[1], lanes_of(errors)
    made, written = np.empty(width, dtype=errors.dtype), grads.reshape(-1)
    for r in range(first, last):
        if len(written):
            grad, at_grad = written, r * width
        else:
            grad, at_grad = made, 0
            sum_of_rows(data, indices, pointers[r], pointers[r + 1], errors, made, 0)
        j = 0
        while j + lanes <= width:
            vector_of_masked(grad, at_grad + j, stacks, kept, r * width + j, constants, *penalties)
            j += lanes
        while j < width:
            _entry(grad, at_grad + j, stacks, kept, r * width + j, constants, *penalties)
            j += 1
