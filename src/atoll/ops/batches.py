"""Training on each client's own data points, all at once or in random batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.ops.ragged import segment_sum
from atoll.optimizers.base import Optimizer
from atoll.optimizers.descent import descend
from atoll.rng import CohortRng
from atoll.tree import Params

if TYPE_CHECKING:
    from atoll.models.base import Model


def check_batch(batch: int) -> None:
    if batch < 0:
        raise AtollError(f"method.batch is {batch}; 0 means all of a client's points.")


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


def descend_in_batches(
    model: Model,
    params_K: Params,
    cohort: Cohort,
    optimizer: Optimizer,
    state_K: Params,
    batch: int,
    steps: int,
    rng: CohortRng,
) -> tuple[Params, Params]:
    """Some steps on batches of each client's training points: parameters, optimizer's state."""
    points = training_points(cohort)
    weights = iter(batch_weights(points, batch, steps, rng))

    def loss(params_K: Params) -> Tensor:
        return weighted_loss(model.apply(params_K, points, rng), points, next(weights))

    params_K, state_K, _ = descend(params_K, loss, optimizer, state_K, steps)
    return params_K, state_K
