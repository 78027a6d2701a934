"""Distances of generated rows to the nearest nodes, and their gradients."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from atoll.device import of_numpy
from atoll.graph import Graph, dense
from atoll.kernels import VECTOR_BYTES, array, fit, kernels
from atoll.methods.fed_sage_plus.mending import Impaired
from atoll.ops.sparse import Sparse


def columns(rows_K: Tensor) -> Tensor:
    """The same numbers ``[K, R, f] -> [K, f, R']``, with zeros behind: full vectors per row."""
    k, count, features = rows_K.shape
    lanes = VECTOR_BYTES // rows_K.itemsize
    room = rows_K.new_zeros(k, features, -(-count // lanes) * lanes)
    room[:, :, :count] = rows_K.transpose(1, 2)
    return room


def from_nearest(graph: Graph, rows: Tensor, column: Tensor, out: Tensor) -> Tensor:
    """The gradient ``2 (x - x_u)`` of the squared distance of each row x to the nearest node u.

    The rows ``[R, f]`` are given as :func:`columns` ``[f, R']`` too; the result is in ``out``.
    """
    x, squares = graph.cached(
        f"features and squares {rows.dtype} on {rows.device}",
        lambda: _features_and_squares(graph, rows.dtype),
    )
    if isinstance(x, Sparse) and fit(rows, column, out, squares, x.csr.values()):
        at = np.empty(column.shape[1], dtype=np.int32)
        kernels("nearest").nearest_row(*x.arrays, array(squares), array(column), at)
        kernels("nearest").from_row(*x.arrays, at, array(rows), array(out))
        return out
    # |x_u - r|^2 without |r|^2, which is the same for every u.
    nearest = (squares[:, None] - 2 * (x @ column)).argmin(0)[: len(rows)]
    features = of_numpy(dense(graph.x[nearest.cpu().numpy()])).to(rows.dtype)
    return torch.sub(rows, features, out=out).mul_(2)


def _features_and_squares(graph: Graph, dtype: torch.dtype) -> tuple[Sparse | Tensor, Tensor]:
    if sparse.issparse(graph.x):
        x: Sparse | Tensor = Sparse(sparse.csr_array(graph.x), dtype)
        squares = sparse.csr_array(graph.x).power(2).sum(axis=1)
    else:
        x = of_numpy(np.asarray(graph.x)).to(dtype)
        squares = np.square(np.asarray(graph.x), dtype=np.float64).sum(axis=1)
    return x, of_numpy(np.asarray(squares)).to(dtype)


def from_nearest_hidden(impaired: Impaired, owner: Tensor, rows: Tensor) -> Tensor:
    """``|x - x_u|^2 [R]`` for every row x of a node ``owner [R]``, u its nearest hidden neighbour.

    All these nodes have lost neighbours.
    """
    return cast(Tensor, _FromNearestHidden.apply(rows, owner, impaired))  # type: ignore[no-untyped-call]


class _FromNearestHidden(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, owner: Tensor, impaired: Impaired) -> Tensor:
        at, distance = impaired.nearest(owner, rows)
        ctx.save_for_backward(rows, at)
        ctx.x = impaired.x
        return distance

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        rows, at = ctx.saved_tensors
        return (rows - ctx.x.index_select(0, at)).mul_(2 * grad[:, None]), None, None
