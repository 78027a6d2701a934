"""Distances of generated rows to a client's own nodes."""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from atoll.device import of_numpy
from atoll.graph import Graph, dense
from atoll.kernels import array, fit, kernels
from atoll.ops.sparse import Sparse


def from_nearest(graph: Graph, rows: Tensor, columns: Tensor, out: Tensor) -> Tensor:
    """The gradient ``2 (x - x_u)`` of the squared distance of each row x to the nearest node u.

    The rows ``[R, f]`` are given as ``columns [f, R]`` as well; the result is in ``out [R, f]``.
    """
    x, squares = graph.cached(
        f"features and squares {rows.dtype} on {rows.device}",
        lambda: _features_and_squares(graph, rows.dtype),
    )
    if isinstance(x, Sparse) and fit(rows, columns, out, squares, x.csr.values()):
        at = np.empty(len(rows), dtype=np.int32)
        kernels("nearest").nearest_row(*x.arrays, array(squares), array(columns), at)
        kernels("nearest").from_row(*x.arrays, at, array(rows), array(out))
        return out
    # |x_u - r|^2 without |r|^2, which is the same for every u.
    nearest = (squares[:, None] - 2 * (x @ columns)).argmin(0)
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
