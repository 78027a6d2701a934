"""Features of several clients, packed into one matrix, times the weights of each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from atoll.device import of_numpy
from atoll.graph import Features, dense, entries
from atoll.kernels import array, fit, kernels
from atoll.kernels.sharing import share
from atoll.ops.dense import product
from atoll.ops.ragged import ragged_linear
from atoll.ops.sparse import Sparse, block_diagonal

# Above this share of non-zeros a dense product is faster than a sparse one.
DENSE_ABOVE = 0.25


def pack_features(x_K: Sequence[Features], dtype: torch.dtype) -> Sparse | Tensor:
    """Block-diagonal if sparse, one below the other if dense."""
    if sum(map(entries, x_K)) <= DENSE_ABOVE * sum(x.shape[0] * x.shape[1] for x in x_K):
        return Sparse(block_diagonal([sparse.csr_array(x) for x in x_K]), dtype)
    return of_numpy(np.concatenate([dense(x) for x in x_K])).to(dtype)


def features_times(x: Sparse | Tensor, weight_K: Tensor, sizes: Sequence[int]) -> Tensor:
    """Each client's features times its weights, ``[K, f, h] -> [N, h]``.

    Of sparse features weights may be the rows ``[R, h]`` of all their columns as well.
    """
    if isinstance(x, Sparse):
        return x @ (weight_K if weight_K.dim() == 2 else weight_K.flatten(0, 1))
    return ragged_linear(x, weight_K, sizes)


def same_features_times(x: Sparse | Tensor, weight_K: Tensor) -> Tensor:
    """The same features times each client's weights, ``[n, f], [K, f, h] -> [K n, h]``."""
    if isinstance(x, Tensor):
        if torch.is_grad_enabled() and weight_K.requires_grad:
            return torch.matmul(x, weight_K).flatten(0, 1)
        return _one_by_one(x.detach(), weight_K.detach())
    k, f, h = weight_K.shape
    side_by_side = x @ weight_K.transpose(0, 1).reshape(f, k * h)
    return side_by_side.view(-1, k, h).transpose(0, 1).reshape(-1, h)


def _one_by_one(x: Tensor, weight_K: Tensor) -> Tensor:
    """Dense features times each client's weights, several clients at a time where it is worth it.

    A product has the same numbers whoever makes it, on however many threads.
    """
    k, _, h = weight_K.shape
    made_K = x.new_empty((k, len(x), h))
    work = 2.0 * x.numel() * h * k
    if fit(x, weight_K):
        times = partial(kernels("ragged").same_times, array(x), array(weight_K))
        share(partial(times, array(made_K)), k, work)
        return made_K.flatten(0, 1)

    def some(first: int, last: int) -> None:
        for i in range(first, last):
            made_K[i] = product(x, weight_K[i])

    share(some, k, work)
    return made_K.flatten(0, 1)
