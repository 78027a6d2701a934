"""The parts of a network whose gradients are written out, each one pass of a compiled kernel.

For those who have asked whether kernels fit (:func:`atoll.kernels.fit`). Rows ``[N, h]`` stand
client by client, ``sizes`` of each; biases are ``[K, h]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from atoll.kernels import array, kernels
from atoll.ops.dropout import Coins
from atoll.ops.own_rows import OwnRows
from atoll.ops.ragged_product import starts
from atoll.ops.sparse import Sparse

_once: ContextVar[bool] = ContextVar("gradients are taken once", default=False)


@contextmanager
def differentiated_once() -> Iterator[None]:
    """Nobody differentiates the gradients of what is computed within."""
    token = _once.set(True)
    try:
        yield
    finally:
        _once.reset(token)


def gradients_are_last() -> bool:
    """Whether gradients may be written out, so that they can't be differentiated themselves."""
    return _once.get() and torch.is_grad_enabled()


@dataclass(frozen=True)
class ProductGradient:
    """A gradient ``A E`` that is not made yet: who needs each row once may never write it down.

    ``of`` are the weights if they are own rows that still are alike for everybody
    (:attr:`atoll.ops.own_rows.OwnRows.alike`).
    """

    matrix: Sparse
    errors: Tensor
    shape: torch.Size
    of: OwnRows | None = None

    def made(self) -> Tensor:
        """The gradient, for somebody who moves the weights where they are."""
        if self.of is not None:
            self.of.settle()
        return (self.matrix @ self.errors).view(self.shape)


def with_bias(h: Tensor, bias_K: Tensor, sizes: Sequence[int]) -> Tensor:
    """``h_k + b_k``, in the memory of ``h``."""
    kernels("layers").add_bias(array(h), array(bias_K), starts(tuple(sizes)))
    return h


def activated(
    h: Tensor,
    bias_K: Tensor,
    sizes: Sequence[int],
    coins: Coins | None = None,
    at: Tensor | None = None,
) -> Tensor:
    """``max(h_k + b_k, 0)``, then dropout by ``coins`` if given, in the memory of ``h``.

    With ``at [R]``, ``h`` has these rows only, of all for which coins were thrown.
    """
    rows = array(h), array(bias_K), starts(tuple(sizes))
    if coins is None:
        kernels("layers").relu(*rows)
        return h
    where = np.arange(len(h)) if at is None else array(at)
    kernels("layers").relu_dropout(*rows, coins.numbers, where, coins.threshold, coins.scale)
    return h


def activated_back(
    grad: Tensor,
    h: Tensor,
    sizes: Sequence[int],
    coins: Coins | None = None,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The gradients of :func:`activated` with respect to rows and biases, from that of ``h``.

    The first is in the memory of ``grad``, or in ``out`` if that is given.
    """
    sum_K = h.new_empty((len(sizes), h.shape[1]))
    scale = 1.0 if coins is None else coins.scale
    rows = array(grad), array(h), starts(tuple(sizes))
    if out is None:
        kernels("layers").relu_dropout_back(*rows, scale, array(sum_K))
        return grad, sum_K
    kernels("layers").relu_dropout_back_to(*rows, scale, array(out), array(sum_K))
    return out, sum_K


def row_sums(rows: Tensor, sizes: Sequence[int]) -> Tensor:
    """Sums over each client's rows, ``[N, h] -> [K, h]``."""
    sum_K = rows.new_empty((len(sizes), rows.shape[1]))
    kernels("layers").row_sums(array(rows), starts(tuple(sizes)), array(sum_K))
    return sum_K


def activated_sums(h: Tensor, bias_K: Tensor, share: Tensor, sizes: Sequence[int]) -> Tensor:
    """``sum_i share_i max(h_i + b_k, 0)`` over each client's rows, ``[N, h], [N] -> [K, h]``."""
    sum_K = torch.empty_like(bias_K)
    given = array(h), array(bias_K), array(share), starts(tuple(sizes))
    kernels("layers").relu_sums(*given, array(sum_K))
    return sum_K


def cross_entropy(
    logits: Tensor, y: Tensor, weight: Tensor, sizes: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """The weighted sum of losses over each client's rows ``[K]``, and its gradient ``[N, C]``."""
    loss_K, errors = logits.new_empty(len(sizes)), torch.empty_like(logits)
    given = array(logits), array(y), array(weight), starts(tuple(sizes))
    kernels("layers").cross_entropy(*given, array(loss_K), array(errors))
    return loss_K, errors


def losses_and_guesses(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The cross-entropy of every row and the class it is largest for, ``[N]`` each."""
    loss = torch.empty(len(y), dtype=torch.float64)
    guess = torch.empty_like(y)
    kernels("layers").losses_and_guesses(array(logits), array(y), array(loss), array(guess))
    return loss, guess
