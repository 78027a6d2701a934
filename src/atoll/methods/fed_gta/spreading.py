"""What FedGTA's clients tell of themselves: labels spread over a graph, and their moments."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from atoll.cohort import Cohort
from atoll.cohort.inputs import Operator
from atoll.device import of_numpy
from atoll.graph import Graph
from atoll.ops.ragged import segment_mean, segment_sum
from atoll.ops.sparse import Sparse, block_diagonal, neighbour_operator

Moments = Literal["raw", "central", "hybrid"]
Spread = Literal["all", "training"]


def spread_labels(soft: Tensor, cohort: Cohort, spread: Spread, steps: int, alpha: float) -> Tensor:
    """Labels after ``steps`` of spreading ``[N, C]``; ``soft [N, C]`` are predicted ones.

    ``all``: training nodes begin with their label, the others with what is predicted;
    ``Y <- alpha P Y + (1 - alpha) Y0``, and training nodes add Y0 once more at every step.
    ``training``: training nodes begin with what is predicted, the others with nothing;
    ``Y <- alpha D^-1/2 A D^-1/2 Y + (1 - alpha) Y0``, held between 0 and 1.
    """
    train = cohort.rows("train")
    if spread == "training":
        first = torch.zeros_like(soft).index_copy(0, train, soft[train])
        operator = cohort.cached("neighbours", lambda: _without_loops(cohort))
        y = first
        for _ in range(steps):
            y = (alpha * (operator @ y) + (1 - alpha) * first).clamp(0.0, 1.0)
        return y
    first = soft.index_copy(0, train, _labels(cohort, soft))
    again = torch.zeros_like(first).index_copy(0, train, first[train])
    y = first
    for _ in range(steps):
        y = alpha * (cohort.operator("gcn") @ y) + (1 - alpha) * first + again
    return y


def distributions(y: Tensor, cohort: Cohort, temperature: float) -> Tensor:
    """``softmax(y / temperature)``, and the label itself where a node trains ``[N, C]``."""
    train = cohort.rows("train")
    return (y / temperature).softmax(1).index_copy(0, train, _labels(cohort, y))


def moments_of(q: Tensor, cohort: Cohort, kind: Moments, order: int) -> Tensor:
    """Moments 1 to ``order`` of each column, over each client's nodes ``[K, orders * C]``."""
    mean = segment_mean(q, cohort.batch, cohort.k)
    about = {"raw": [q], "central": [q - mean[cohort.batch]]}
    parts = about.get(kind, [*about["raw"], *about["central"]])
    powers = [part**p for part in parts for p in range(1, order + 1)]
    return torch.cat([segment_mean(power, cohort.batch, cohort.k) for power in powers], dim=1)


def confidence(q: Tensor, cohort: Cohort) -> Tensor:
    """``sum_i d_i (C/e + sum_c q_ic ln q_ic)`` of each client ``[K]``, in float64.

    ``q ln q`` is never below ``-1/e``, so it is not negative.
    """
    classes = q.shape[1]
    smooth = classes / math.e + torch.xlogy(q, q).sum(1)
    return segment_sum((_degrees(cohort) * smooth).double(), cohort.batch, cohort.k)


def _labels(cohort: Cohort, like: Tensor) -> Tensor:
    """The training nodes' labels, one-hot."""
    return one_hot(cohort.y[cohort.rows("train")], like.shape[1]).to(like.dtype)


def _degrees(cohort: Cohort) -> Tensor:
    def count() -> Tensor:
        parts = [of_numpy(_degree(graph)) for graph in cohort.graphs]
        return torch.cat(parts).to(cohort.dtype)

    return cohort.cached("degrees", count)


def _degree(graph: Graph) -> np.ndarray:
    degree: np.ndarray = graph.weighted_adjacency.sum(axis=1)
    return degree


def _without_loops(cohort: Cohort) -> Operator:
    blocks = [neighbour_operator(graph.weighted_adjacency) for graph in cohort.graphs]
    return Sparse(block_diagonal(blocks), cohort.dtype)
