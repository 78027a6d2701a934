"""A bias-free two-layer MLP that many clients share, and the Jacobian of its output.

For one data point x the encoder is ``h = relu(x W1) W2``, with ``a = relu(x W1)`` the hidden units
and ``m = [x W1 > 0]`` which of them are active. Its Jacobian, ``classes * (f * H + H * classes)``
numbers, has only a few that are not known to whoever knows the weights:

    d h_c / d W1[f, u] = x_f m_u W2[u, c]        d h_c / d W2[u, c'] = a_u [c = c']

So the Jacobian of a client's mean output follows from the moments ``M = mean_s x_s m_s^T [f, H]``
and the mean units ``a [H]``. Sums over clients keep this form, as all share W2. Rows of M whose
feature is zero in all of a client's points are zero and need not be sent either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from atoll.cohort import Cohort
from atoll.device import kept_per_device, of_numpy
from atoll.leaves import Ragged, Rows
from atoll.ops.ragged import segment_mean
from atoll.ops.sparse import Sparse
from atoll.tree import Params

# Above this share of non-zeros features are kept dense.
_DENSE_ABOVE = 0.25


class Points(NamedTuple):
    """All clients' data points under one encoder: ``output [N, c]``, ``units [N, H]``."""

    output: Tensor
    units: Tensor


def common(model_K: Mapping[str, Tensor]) -> Params:
    """The one model that was sent to all clients alike ``[K, ...]``: a view, never K copies."""
    return {name: p[0] for name, p in model_K.items()}


def encode(params: Params, cohort: Cohort) -> Points:
    """Every data point's output and hidden units, by the weights that all clients share.

    The last ones are kept: clients are scored with the weights they have just represented their
    points with.
    """
    w1, w2 = params["lin1.weight"], params["lin2.weight"]

    def through() -> Points:
        units = (_features(cohort) @ w1).relu_()
        return Points(units @ w2, units)

    return cohort.latest("encoded", (w1, w2), through)


def mean_of_points(values: Tensor, cohort: Cohort) -> Tensor:
    """Each client's mean over its data points ``[N, d] -> [K, d]``."""
    return segment_mean(values, cohort.batch, cohort.k)


def moments(units: Tensor, cohort: Cohort) -> Rows:
    """The rows of each client's ``M = mean_s x_s m_s^T`` that aren't zero: ``[R_k, H]`` of f."""
    active = (units > 0).to(units.dtype)
    x, made = _features(cohort), cohort.cached("moments", lambda: _nonzero_rows(cohort))
    if isinstance(x, Sparse):
        assert made.of_masks is not None
        return Rows(made.at, Ragged(made.of_masks @ active, made.at.sizes))
    n = max(cohort.sizes)
    if n == 1:
        rows = x[:, :, None] * active[:, None, :]
    elif n == min(cohort.sizes):
        rows = torch.bmm(x.view(cohort.k, n, -1).mT, active.view(cohort.k, n, -1) / n)
    else:
        pairs = zip(*(torch.split(part, list(cohort.sizes)) for part in (x, active)), strict=True)
        rows = torch.stack([x_k.mT @ m_k / len(x_k) for x_k, m_k in pairs])
    return Rows(made.at, Ragged(rows.flatten(0, 1), made.at.sizes))


class _NonzeroRows(NamedTuple):
    """Which rows of M each client sends, and (if sparse) the matrix that makes them of masks."""

    at: Ragged
    of_masks: Sparse | None


def _nonzero_rows(cohort: Cohort) -> _NonzeroRows:
    x = _features(cohort)
    if isinstance(x, Tensor):
        every = torch.arange(cohort.features, dtype=torch.int32)
        sizes = (cohort.features,) * cohort.k
        return _NonzeroRows(Ragged(every.repeat(cohort.k), sizes), None)
    points = sparse.coo_array(_stacked(cohort))
    point, feature = points.coords
    client = np.repeat(np.arange(cohort.k), cohort.sizes)[point]
    keys, row = np.unique(client * cohort.features + feature, return_inverse=True)
    share = points.data / np.asarray(cohort.sizes)[client]
    of_masks = sparse.csr_array((share, (row, point)), shape=(len(keys), sum(cohort.sizes)))
    counts = np.bincount(keys // cohort.features, minlength=cohort.k)
    at = of_numpy((keys % cohort.features).astype(np.int32))
    return _NonzeroRows(Ragged(at, tuple(counts.tolist())), Sparse(of_masks, cohort.dtype))


def mix_moments(weights: Tensor, moments: Rows, features: int) -> Tensor:
    """``sum_j weights[t, j] M_j`` for each t: ``[T, m]`` and rows of m clients -> ``[T, f, H]``."""
    at, rows = moments.at, moments.rows.values
    m, t, hidden = len(at.sizes), weights.shape[0], rows.shape[1]
    if _has_every_row(at, features):
        return (weights @ rows.view(m, -1)).view(t, features, hidden)
    where = at.values.cpu().numpy().tobytes(), at.sizes, features
    mixing = _mixing_of_rows(weights.cpu().numpy().tobytes(), weights.dtype, t, *where)
    return (mixing @ rows).view(t, features, hidden)


# The weights and the clients' features are the same in every round.
@kept_per_device(maxsize=2)
def _mixing_of_rows(
    weights: bytes,
    dtype: torch.dtype,
    t: int,
    at: bytes,
    sizes: tuple[int, ...],
    features: int,
) -> Sparse:
    """The matrix that makes ``[T * f, H]`` of all clients' rows."""
    shares = np.frombuffer(weights, dtype=str(dtype).removeprefix("torch.")).reshape(t, -1)
    feature = np.frombuffer(at, dtype=np.int32)
    client = np.repeat(np.arange(len(sizes)), sizes)
    order = np.argsort(feature, kind="stable")
    ends = np.cumsum(np.bincount(feature, minlength=features))
    starts = (np.arange(t)[:, None] * len(order) + ends).reshape(-1)
    mixing = sparse.csr_array(
        (shares[:, client[order]].reshape(-1), np.tile(order, t), np.concatenate([[0], starts])),
        shape=(t * features, len(order)),
    )
    return Sparse(mixing, dtype)


def _has_every_row(at: Ragged, features: int) -> bool:
    every = torch.arange(features, dtype=at.values.dtype)
    return all(size == features for size in at.sizes) and torch.equal(
        at.values, every.repeat(len(at.sizes))
    )


def _features(cohort: Cohort) -> Sparse | Tensor:
    """All data points' features as one matrix ``[N, f]``."""

    def build() -> Sparse | Tensor:
        x = _stacked(cohort)
        stored = x.nnz if sparse.issparse(x) else np.count_nonzero(x)
        if stored <= _DENSE_ABOVE * x.shape[0] * x.shape[1]:
            return Sparse(sparse.csr_array(x), cohort.dtype)
        whole = x.toarray() if sparse.issparse(x) else x
        return of_numpy(whole).to(cohort.dtype)

    return cohort.cached("features", build)


def _stacked(cohort: Cohort) -> Any:
    blocks = [graph.x for graph in cohort.graphs]
    if any(sparse.issparse(block) for block in blocks):
        return sparse.vstack([sparse.csr_array(block) for block in blocks], format="csr")
    return np.concatenate(blocks)
