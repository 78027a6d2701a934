"""Operations on the rows of K clients of different sizes, each with weights of its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from atoll.kernels import fit
from atoll.ops.dense import product
from atoll.ops.ragged_product import MANY, ragged_product

# Rows per client from which on one product per client is no slower than one for all.
_LARGE = 128


def ragged_linear(h: Tensor, weight_K: Tensor, sizes: Sequence[int]) -> Tensor:
    """Each client's rows times its weights: ``[N, in], [K, in, out] -> [N, out]``."""
    k = weight_K.shape[0]
    if fit(h, weight_K):
        return ragged_product(h, weight_K, sizes)
    if k == 1:
        return product(h, weight_K[0])
    if min(sizes) == max(sizes) and sizes[0] < _LARGE:
        return torch.bmm(h.view(k, sizes[0], h.shape[1]), weight_K).flatten(0, 1)
    if torch.is_grad_enabled() or k >= MANY:
        return ragged_product(h, weight_K, sizes)
    rows = torch.split(h, list(sizes))
    products = [product(h_k, w) for h_k, w in zip(rows, weight_K.unbind(), strict=True)]
    return torch.cat(products)


def segment_sum(values: Tensor, segment: Tensor, k: int) -> Tensor:
    """Sum of the entries (or rows) of each segment, ``[T, ...] -> [k, ...]``."""
    return values.new_zeros((k, *values.shape[1:])).index_add(0, segment, values)


def segment_mean(values: Tensor, segment: Tensor, k: int) -> Tensor:
    """Mean over each segment ``[T, ...] -> [k, ...]``; zero for an empty one."""
    size = torch.bincount(segment, minlength=k).clamp(min=1)
    return segment_sum(values, segment, k) / size.view(-1, *[1] * (values.dim() - 1))


def segment_softmax(scores: Tensor, segment: Tensor, k: int) -> Tensor:
    """Softmax within each segment, for every column: ``[E, heads] -> [E, heads]``."""
    index = segment[:, None].expand_as(scores)
    top = scores.new_full((k, scores.shape[1]), -torch.inf)
    top = top.scatter_reduce(0, index, scores.detach(), "amax", include_self=True)
    weights = (scores - top.index_select(0, segment)).exp()
    return weights / segment_sum(weights, segment, k).index_select(0, segment)
