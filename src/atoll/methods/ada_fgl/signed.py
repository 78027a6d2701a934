"""Sums over all pairs of a client's nodes, weighed by how alike two nodes are."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from atoll.kernels import array, fit, kernels
from atoll.kernels.sharing import share
from atoll.methods.ada_fgl.knowledge import BLOCK, alike_pairs

# Below it a spread of similarities is none.
_TINY = 1e-12


def signed_sums(
    e: Tensor, v: Tensor, unit: Tensor, alike: Tensor, beta: float, level: float
) -> tuple[Tensor, Tensor]:
    """``max(Q, 0) e`` and ``max(-Q, 0) e`` of one client, ``[n, C]`` each.

    ``R_ij = beta [cos(Pr_i, Pr_j) > level] + (1 - beta) v_i v_j`` without its diagonal, of mean m;
    Q is ``(R - m) / (max R - m)`` above the mean, ``-R / m`` elsewhere, and one on its diagonal.
    ``alike`` is how many ordered pairs have their cosine above the level.
    """
    n = len(e)
    total = beta * alike + (1 - beta) * (v.sum(0).square().sum() - n)
    mean = total / n**2
    height = (_largest(v, unit, beta, level) - mean).clamp(min=_TINY)
    floor = mean.clamp(min=_TINY)
    if fit(e.contiguous(), v.contiguous(), unit.contiguous()):
        found = _Compiled.apply(e, v, unit, mean, height, floor, beta, level)  # type: ignore[no-untyped-call]
        return cast(tuple[Tensor, Tensor], found)
    return _by_blocks(e, v, unit, (mean, height, floor), beta, level)


def _by_blocks(
    e: Tensor,
    v: Tensor,
    unit: Tensor,
    limits: tuple[Tensor, Tensor, Tensor],
    beta: float,
    level: float,
) -> tuple[Tensor, Tensor]:
    """Q is made by blocks of rows, and once more for its gradient."""

    def rows(
        e: Tensor, v: Tensor, mean: Tensor, height: Tensor, floor: Tensor, i: Tensor
    ) -> tuple[Tensor, Tensor]:
        at = torch.arange(len(i)), i
        S = (unit[i] @ unit.T > level).to(v.dtype)
        R = beta * S + (1 - beta) * (v[i] @ v.T)
        Q = torch.where(mean < R, (R - mean) / height, -R / floor)
        Q = Q.index_put(at, torch.ones_like(Q[:, 0]))
        return Q.clamp(min=0) @ e, (-Q).clamp(min=0) @ e

    blocks = torch.split(torch.arange(len(e)), BLOCK)
    again = partial(checkpoint, rows, use_reentrant=False, preserve_rng_state=False)
    made = rows if len(blocks) == 1 else again
    above, below = zip(*(made(e, v, *limits, i) for i in blocks), strict=True)
    return torch.cat(above), torch.cat(below)


def _largest(v: Tensor, unit: Tensor, beta: float, level: float) -> Tensor:
    """The largest entry of R off its diagonal; zero for a single node."""
    if len(v) == 1:
        return v.new_zeros(())
    i, j = _place_of_largest(v.detach(), unit, beta, level)
    together = (unit[i] @ unit[j] > level).to(v.dtype)
    return beta * together + (1 - beta) * (v[i] @ v[j])


def _place_of_largest(v: Tensor, unit: Tensor, beta: float, level: float) -> tuple[int, int]:
    columns = [t.T.contiguous() for t in (unit, v)]
    if fit(*columns):
        number = array(v).dtype.type
        i, j = kernels("pairs").largest(*map(array, columns), number(beta), number(level))
        return int(i), int(j)
    best, where = -torch.inf, (0, 1)
    for rows, alike in alike_pairs(unit, level):
        R = beta * alike.to(v.dtype) + (1 - beta) * (v[rows] @ v.T)
        R[torch.arange(len(R)), torch.arange(rows.start, rows.stop)] = -torch.inf
        if float(R.max()) > best:
            i, j = divmod(int(R.argmax()), len(v))
            best, where = float(R.max()), (rows.start + i, j)
    return where


class _Compiled(torch.autograd.Function):
    """The same sums by a kernel, pair by pair: no block of Q is kept."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> tuple[Tensor, Tensor]:
        e, v, unit, mean, height, floor, beta, level = given
        columns = [t.T.contiguous() for t in (e, v, unit)]
        number = array(columns[0]).dtype.type
        limits = tuple(number(x) for x in (beta, level, mean, height, floor))
        made = torch.empty_like(columns[0]), torch.empty_like(columns[0])
        arrays = *map(array, columns), limits, *map(array, made)
        share(partial(kernels("pairs").signed_sums, *arrays), len(e), _work(e, 4))
        ctx.save_for_backward(*columns)
        ctx.limits = limits
        return made[0].T.contiguous(), made[1].T.contiguous()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        columns = *ctx.saved_tensors, *(g.T.contiguous() for g in grads)
        e, limits = columns[0], columns[0].new_empty(3, columns[0].shape[1])
        made = torch.empty_like(e), torch.empty_like(e), limits
        arrays = *map(array, columns), ctx.limits, *map(array, made)
        share(partial(kernels("pairs").signed_sums_back, *arrays), e.shape[1], _work(e.T, 9))
        return made[0].T, made[1].T, None, *limits.sum(1), None, None


def _work(e: Tensor, sums: int) -> float:
    return float(sums * len(e) * e.numel())
