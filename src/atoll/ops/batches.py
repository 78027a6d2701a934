"""Training on each client's own data points, all at once or in random batches."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from atoll.cohort import Cohort
from atoll.ops.ragged import segment_sum
from atoll.rng import CohortRng


def training_points(cohort: Cohort) -> Cohort:
    """The same clients with their training points alone: data points, not a graph's nodes."""

    def build() -> Cohort:
        if all(graph.train.all() for graph in cohort.graphs):
            return cohort
        return cohort.with_graphs([g.subgraph(np.flatnonzero(g.train)) for g in cohort.graphs])

    return cohort.cached("training points", build)


def batch_weights(points: Cohort, batch: int, steps: int, rng: CohortRng) -> Tensor:
    """How much each point counts in each of some steps ``[steps, N]``.

    ``batch`` points of every client are drawn anew for each step, without repetition, and count
    the same; a client with fewer uses all. With ``batch`` 0 everybody uses all its points.
    """
    blocks = []
    for at, size in enumerate(points.sizes):
        if batch == 0 or batch >= size:
            blocks.append(np.full((steps, size), 1.0 / size))
        else:
            chosen = rng.streams[at].random((steps, size)).argsort(axis=1)[:, :batch]
            block = np.zeros((steps, size))
            np.put_along_axis(block, chosen, 1.0 / batch, axis=1)
            blocks.append(block)
    return torch.from_numpy(np.concatenate(blocks, axis=1)).to(points.dtype)


def weighted_loss(logits: Tensor, points: Cohort, weights: Tensor) -> Tensor:
    """Each client's cross-entropy over its points ``[K]``, weighted ``[N]``."""
    losses = cross_entropy(logits, points.y, reduction="none")
    return segment_sum(losses * weights, points.batch, points.k)
