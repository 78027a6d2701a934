"""What stands between the products of a network, with a gradient in one pass where kernels fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from atoll.kernels import fit
from atoll.ops.dropout import Coins, dropout, thrown
from atoll.ops.written_out import activated, activated_back, gradients_are_last, row_sums, with_bias
from atoll.rng import CohortRng


def shifted(h: Tensor, bias_K: Tensor, batch: Tensor, sizes: Sequence[int]) -> Tensor:
    """``h_k + b_k``, ``[N, d], [K, d]``, in the memory of ``h``."""
    if _one_pass(h, bias_K):
        if not torch.is_grad_enabled():
            return with_bias(h, bias_K, sizes)
        return cast(Tensor, _Shifted.apply(h, bias_K, tuple(sizes)))  # type: ignore[no-untyped-call]
    return h.add_(bias_K if len(bias_K) == 1 else bias_K.index_select(0, batch))


def rectified(
    h: Tensor,
    bias_K: Tensor,
    batch: Tensor,
    sizes: Sequence[int],
    rate: float = 0.0,
    rng: CohortRng | None = None,
) -> Tensor:
    """``max(h_k + b_k, 0)``, then dropout; without dropout in the memory of ``h``."""
    if _one_pass(h, bias_K):
        coins = None if rng is None or rate == 0 else thrown(rate, rng, sizes, h.shape[1])
        if not torch.is_grad_enabled():
            return activated(h, bias_K, sizes, coins)
        return cast(Tensor, _Rectified.apply(h, bias_K, tuple(sizes), coins))  # type: ignore[no-untyped-call]
    h = shifted(h, bias_K, batch, sizes).relu_()
    return dropout(h, rate, rng, sizes)


def _one_pass(h: Tensor, bias_K: Tensor) -> bool:
    """Whether kernels fit, and nobody differentiates their gradient."""
    return fit(h, bias_K) and (gradients_are_last() or not torch.is_grad_enabled())


class _Shifted(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, bias_K: Tensor, sizes: tuple[int, ...]) -> Tensor:
        ctx.sizes = sizes
        ctx.mark_dirty(h)
        return with_bias(h, bias_K, sizes)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        _refuse_twice()
        grad = grad.contiguous()
        return grad, row_sums(grad, ctx.sizes), None


class _Rectified(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, h: Tensor, bias_K: Tensor, sizes: tuple[int, ...], coins: Coins | None
    ) -> Tensor:
        ctx.sizes, ctx.coins = sizes, coins
        ctx.mark_dirty(h)
        h = activated(h, bias_K, sizes, coins)
        ctx.save_for_backward(h)
        return h

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        _refuse_twice()
        (h,) = ctx.saved_tensors
        # In memory of its own: the gradient may have been handed to others as well.
        grad = grad.contiguous()
        back, sums = activated_back(grad, h, ctx.sizes, ctx.coins, torch.empty_like(grad))
        return back, sums, None, None


def _refuse_twice() -> None:
    if torch.is_grad_enabled():
        raise RuntimeError("a gradient that is written out can't be differentiated again")
