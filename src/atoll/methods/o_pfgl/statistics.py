"""What O-pFGL's clients send: per class a count, and sums of features and propagated features."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from torch import Tensor

from atoll.cohort import Cohort
from atoll.device import of_numpy
from atoll.graph import Features, Graph, dense
from atoll.ops.propagation import propagated_features
from atoll.tree import Params


def class_sums(cohort: Cohort, hops: int, floor: int, squares: bool) -> Params:
    """``count [K, C]``, ``sum [K, C, (1 + hops) f]`` of ``[X, PX, ...]``, and sums of ``square``.

    Over training nodes. Of a class with fewer than ``floor`` of them at a client, nothing.
    """
    own = [_class_sums(graph, hops, floor, squares) for graph in cohort.graphs]
    stacked = {name: of_numpy(np.stack([o[name] for o in own])) for name in own[0]}
    return {n: t if n == "count" else t.to(cohort.dtype) for n, t in stacked.items()}


def _class_sums(graph: Graph, hops: int, floor: int, squares: bool) -> dict[str, np.ndarray]:
    train = np.flatnonzero(graph.train)
    count = np.bincount(graph.y[train], minlength=graph.classes)
    train = train[count[graph.y[train]] >= floor]
    member = sparse.csr_array(
        (np.ones(len(train)), (graph.y[train], train)), shape=(graph.classes, graph.nodes)
    )
    x_hops = [graph.x, *(propagated_features(graph, "gcn", k + 1) for k in range(hops))]

    def summed(parts: list[Features]) -> np.ndarray:
        return np.concatenate([dense(member @ part) for part in parts], axis=1)

    found = {"count": member.sum(axis=1), "sum": summed(x_hops)}
    return found | ({"square": summed([_squared(x) for x in x_hops])} if squares else {})


def _squared(x: Features) -> Features:
    return x.power(2) if sparse.issparse(x) else x**2  # type: ignore[union-attr]


def moments(count: Tensor, total: Tensor, squares: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Each class's mean and, from the sums of squares, standard deviation ``[C, d]``.

    ``sum_k n_k (s_k^2 + m_k^2)`` is the sum of squares, whoever has the nodes.
    """
    n = count[:, None].to(total.dtype)
    mean = total / n
    if squares is None:
        return mean, None
    variance = (squares - n * mean**2) / (n - 1).clamp(min=1)
    return mean, variance.clamp(min=0).sqrt()
