"""What stands between the products of a network, and the loss at its end, with their gradients.

Rows of client k are those from ``start_K[k]`` to ``start_K[k + 1]``.
"""

from __future__ import annotations

import math

import numba


@numba.njit(nogil=True, cache=True, fastmath={"contract"})
def add_bias(h, bias_K, start_K):
    """``h_k + b_k``, in place."""
    for k in range(len(start_K) - 1):
        bias = bias_K[k]
        for i in range(start_K[k], start_K[k + 1]):
            row = h[i]
            for j in range(len(row)):
                row[j] += bias[j]


@numba.njit(nogil=True, cache=True)
def relu(h, bias_K, start_K):
    """``max(h_k + b_k, 0)``, in place. What is not a number stays so."""
    for k in range(len(start_K) - 1):
        bias = bias_K[k]
        for i in range(start_K[k], start_K[k + 1]):
            row = h[i]
            for j in range(len(row)):
                x = row[j] + bias[j]
                row[j] = x if not x < 0 else 0


@numba.njit(nogil=True, cache=True)
def relu_dropout(h, bias_K, start_K, drawn, at, threshold, scale):
    """The same, with entries set to zero where less than ``threshold`` was drawn, others scaled.

    Numbers are drawn for more rows than are here: those of row i are ``drawn[at[i]]``.
    """
    scale = h.dtype.type(scale)
    for k in range(len(start_K) - 1):
        bias = bias_K[k]
        for i in range(start_K[k], start_K[k + 1]):
            row, own = h[i], drawn[at[i]]
            for j in range(len(row)):
                x = row[j] + bias[j]
                x = x if not x < 0 else 0
                row[j] = x * scale if own[j] >= threshold else 0


@numba.njit(nogil=True, cache=True)
def relu_dropout_back(grad, h, start_K, scale, sum_K):
    """Gradients before it from those after it, in place, and their sums over clients ``[K, h]``."""
    scale = grad.dtype.type(scale)
    for k in range(len(start_K) - 1):
        total = sum_K[k]
        total[:] = 0
        for i in range(start_K[k], start_K[k + 1]):
            row, made = grad[i], h[i]
            for j in range(len(row)):
                g = row[j] * scale if made[j] > 0 else 0
                row[j] = g
                total[j] += g


@numba.njit(nogil=True, cache=True)
def relu_dropout_back_to(grad, h, start_K, scale, out, sum_K):
    """The same with the result in ``out``. (Of two arrays that are one LLVM makes no vectors.)"""
    scale = grad.dtype.type(scale)
    for k in range(len(start_K) - 1):
        total = sum_K[k]
        total[:] = 0
        for i in range(start_K[k], start_K[k + 1]):
            row, made, to = grad[i], h[i], out[i]
            for j in range(len(row)):
                g = row[j] * scale if made[j] > 0 else 0
                to[j] = g
                total[j] += g


@numba.njit(nogil=True, cache=True)
def row_sums(rows, start_K, sum_K):
    """Sums over each client's rows, ``[N, h] -> [K, h]``."""
    for k in range(len(start_K) - 1):
        total = sum_K[k]
        total[:] = 0
        for i in range(start_K[k], start_K[k + 1]):
            row = rows[i]
            for j in range(len(row)):
                total[j] += row[j]


@numba.njit(nogil=True, cache=True)
def relu_sums(h, bias_K, share, start_K, sum_K):
    """``sum_i share_i max(h_i + b_k, 0)`` over each client's rows, ``[N, h] -> [K, h]``."""
    for k in range(len(start_K) - 1):
        total, bias = sum_K[k], bias_K[k]
        total[:] = 0
        for i in range(start_K[k], start_K[k + 1]):
            row, s = h[i], share[i]
            for j in range(len(row)):
                x = row[j] + bias[j]
                total[j] += s * (x if not x < 0 else 0)


@numba.njit(nogil=True, cache=True)
def cross_entropy(logits, y, weight, start_K, loss_K, errors):
    """Each client's loss ``[K]``, the weighted sum over its rows, and its gradient ``[R, C]``."""
    for k in range(len(start_K) - 1):
        loss = 0.0
        for i in range(start_K[k], start_K[k + 1]):
            row, error, w = logits[i], errors[i], weight[i]
            top = row[0]
            for j in range(1, len(row)):
                top = max(top, row[j])
            total = row[0] * 0
            for j in range(len(row)):
                error[j] = math.exp(row[j] - top)
                total += error[j]
            loss += w * (math.log(total) + top - row[y[i]])
            share = w / total
            for j in range(len(row)):
                error[j] *= share
            error[y[i]] -= w
        loss_K[k] = loss


@numba.njit(nogil=True, cache=True)
def losses_and_guesses(logits, y, loss, guess):
    """The cross-entropy of every row ``[R]``, and its first largest entry."""
    for i in range(len(logits)):
        row = logits[i]
        best = 0
        for j in range(1, len(row)):
            if row[j] > row[best] or (row[j] != row[j] and row[best] == row[best]):
                best = j
        total = 0.0
        for j in range(len(row)):
            total += math.exp(row[j] - row[best])
        loss[i] = math.log(total) + row[best] - row[y[i]]
        guess[i] = best
