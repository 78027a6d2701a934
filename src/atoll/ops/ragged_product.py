"""The products of K clients' rows with matrices of their own, where clients differ in size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from atoll.device import of_numpy
from atoll.kernels import array, fit, kernels
from atoll.kernels.sharing import share

# In one product: clients whose sizes differ by less than this factor, if there are so many.
_ALIKE, MANY = 1.5, 64
# To multiply so many rows of nothing costs no more than to gather a bucket's matrices.
_FEW_ROWS = 32
# Larger blocks keep the machine busy by themselves, and padding them would cost more.
_LARGE = 2_000_000


class Bucket(NamedTuple):
    """Clients of about the same size, by position; each is given ``width`` rows.

    ``rows [R]`` are theirs among all rows, or None for all rows; ``slots [R]`` are the places of
    these among ``len(clients) * width``.
    """

    clients: Tensor
    everybody: bool
    width: int
    rows: Tensor
    slots: Tensor

    def padded(self, h: Tensor) -> Tensor:
        """These clients' rows ``[N, f] -> [B, width, f]``, zero where they have fewer."""
        own = h if self.everybody else h.index_select(0, self.rows)
        room = h.new_zeros((len(self.clients) * self.width, h.shape[1]))
        return room.index_copy_(0, self.slots, own).view(len(self.clients), self.width, -1)

    def of(self, weight_K: Tensor) -> Tensor:
        return weight_K if self.everybody else weight_K.index_select(0, self.clients)


class Layout(NamedTuple):
    """How K clients of given sizes are served: some one by one, others in buckets."""

    sizes: tuple[int, ...]
    alone: tuple[int, ...]
    buckets: tuple[Bucket, ...]


def ragged_product(h: Tensor, weight_K: Tensor, sizes: Sequence[int]) -> Tensor:
    """``[N, in], [K, in, out] -> [N, out]``, differentiable any number of times."""
    if differentiates(h, weight_K):
        return cast(Tensor, _Times.apply(h, weight_K, tuple(sizes)))  # type: ignore[no-untyped-call]
    return _times(h, weight_K, tuple(sizes))


def differentiates(*tensors: Tensor) -> bool:
    """Whether torch would have to remember what is computed of these."""
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)


def _times(h: Tensor, weight_K: Tensor, sizes: tuple[int, ...]) -> Tensor:
    out = h.new_empty((h.shape[0], weight_K.shape[2]))
    if compiled_times(h, weight_K, sizes, out):
        return out
    layout = _layout(sizes, weight_K.shape[1] * weight_K.shape[2])
    for rows, weight, result in _one_by_one(layout, h, weight_K, out):
        torch.mm(rows, weight, out=result)
    for bucket in layout.buckets:
        made = torch.bmm(bucket.padded(h), bucket.of(weight_K)).flatten(0, 1)
        if bucket.everybody:
            torch.index_select(made, 0, bucket.slots, out=out)
        else:
            out.index_copy_(0, bucket.rows, made.index_select(0, bucket.slots))
    return out


class _Times(torch.autograd.Function):
    """Each client's rows times its matrix."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, weight_K: Tensor, sizes: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(h, weight_K)
        ctx.sizes = sizes
        return _times(h, weight_K, sizes)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        h, weight_K = ctx.saved_tensors
        of_h, of_weight, _ = ctx.needs_input_grad
        return (
            ragged_product(grad, weight_K.transpose(1, 2), ctx.sizes) if of_h else None,
            outer(h, grad, ctx.sizes) if of_weight else None,
            None,
        )


def compiled_times(h: Tensor, weight_K: Tensor, sizes: tuple[int, ...], out: Tensor) -> bool:
    """Compute the products by a compiled kernel, if there is one; or else do nothing."""
    turned = weight_K.transpose(1, 2)
    if fit(h, weight_K):
        product, matrix_K = kernels("ragged").times, weight_K
    elif fit(h, turned):
        product, matrix_K = kernels("ragged").times_transposed, turned
    else:
        return False
    product = partial(product, array(h), array(matrix_K), starts(sizes), array(out))
    share(product, len(sizes), 2.0 * h.numel() * out.shape[1])
    return True


class _Outer(torch.autograd.Function):
    """``h_k^T g_k`` of every client, ``[N, in], [N, out] -> [K, in, out]``."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, g: Tensor, sizes: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(h, g)
        ctx.sizes = sizes
        return _outer(h, g, sizes)

    @staticmethod
    def backward(ctx: Any, grad_K: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        h, g = ctx.saved_tensors
        of_h, of_g, _ = ctx.needs_input_grad
        return (
            ragged_product(g, grad_K.transpose(1, 2), ctx.sizes) if of_h else None,
            ragged_product(h, grad_K, ctx.sizes) if of_g else None,
            None,
        )


def outer(h: Tensor, g: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """``h_k^T g_k`` of every client, ``[N, in], [N, out] -> [K, in, out]``."""
    if differentiates(h, g):
        return cast(Tensor, _Outer.apply(h, g, sizes))  # type: ignore[no-untyped-call]
    return _outer(h, g, sizes)


def _outer(h: Tensor, g: Tensor, sizes: tuple[int, ...]) -> Tensor:
    out_K = h.new_empty((len(sizes), h.shape[1], g.shape[1]))
    if fit(h, g):
        product = partial(kernels("ragged").outer, array(h), array(g), starts(sizes))
        share(partial(product, array(out_K)), len(sizes), 2.0 * h.numel() * g.shape[1])
        return out_K
    layout = _layout(sizes, h.shape[1] * g.shape[1])
    for rows, result, others in _one_by_one(layout, h, out_K, g):
        torch.mm(rows.t(), others, out=result)
    for bucket in layout.buckets:
        h_B, g_B = bucket.padded(h).transpose(1, 2), bucket.padded(g)
        if bucket.everybody:
            torch.bmm(h_B, g_B, out=out_K)
        else:
            out_K.index_copy_(0, bucket.clients, torch.bmm(h_B, g_B))
    return out_K


def _one_by_one(
    layout: Layout, rows: Tensor, matrix_K: Tensor, others: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """The parts of clients that are served alone: their rows, matrix and other rows."""
    if not layout.alone:
        return
    sizes = list(layout.sizes)
    blocks = torch.split(rows, sizes), matrix_K.unbind(), torch.split(others, sizes)
    if len(layout.alone) == len(layout.sizes):
        yield from zip(*blocks, strict=True)
        return
    for i in layout.alone:
        yield blocks[0][i], blocks[1][i], blocks[2][i]


@lru_cache(maxsize=256)
def starts(sizes: tuple[int, ...]) -> np.ndarray:
    """Where each client's rows begin, and where the last one's end ``[K + 1]``."""
    return np.cumsum([0, *sizes], dtype=np.int64)


@lru_cache(maxsize=256)
def _layout(sizes: tuple[int, ...], entries: int) -> Layout:
    """By the sizes of clients and the entries of their matrices."""
    if len(sizes) < MANY:
        return Layout(sizes, tuple(range(len(sizes))), ())
    size_K = np.array(sizes)
    start_K = np.cumsum(size_K) - size_K
    order = np.argsort(size_K, kind="stable")
    ascending = size_K[order]
    alone: list[int] = []
    buckets: list[Bucket] = []
    first = 0
    while first < len(order):
        limit = max(_ALIKE * ascending[first], ascending[first] + _FEW_ROWS)
        end = int(np.searchsorted(ascending, limit, side="right"))
        clients = np.sort(order[first:end])
        if len(clients) < MANY or ascending[first] * entries > _LARGE:
            alone += clients.tolist()
        else:
            buckets.append(_bucket(clients, size_K[clients], start_K[clients], len(sizes)))
        first = end
    return Layout(sizes, tuple(sorted(alone)), tuple(buckets))


def _bucket(clients: np.ndarray, size_B: np.ndarray, start_B: np.ndarray, k: int) -> Bucket:
    width = int(size_B.max())
    within = np.arange(size_B.sum()) - np.repeat(np.cumsum(size_B) - size_B, size_B)
    rows = within + np.repeat(start_B, size_B)
    slots = within + np.repeat(np.arange(len(clients)) * width, size_B)
    tensors = (of_numpy(array) for array in (rows, slots))
    return Bucket(of_numpy(clients), len(clients) == k, width, *tensors)
