"""Training on each client's own data points, all at once or in random batches."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from torch import Tensor
from torch.nn.functional import cross_entropy

from atoll.cohort import Cohort
from atoll.device import of_numpy
from atoll.errors import AtollError
from atoll.methods.base import Method
from atoll.methods.client import Client
from atoll.models.base import Model
from atoll.models.mlp import MLP, bare_mlp
from atoll.ops.ragged import segment_sum
from atoll.optimizers.base import Optimizer
from atoll.optimizers.sgd import SGD
from atoll.options import option
from atoll.rng import CohortRng
from atoll.tree import Params


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
    return of_numpy(np.concatenate(blocks, axis=1)).to(points.dtype)


def weighted_loss(logits: Tensor, points: Cohort, weights: Tensor) -> Tensor:
    """Each client's cross-entropy over its points ``[K]``, weighted ``[N]``."""
    losses = cross_entropy(logits, points.y, reduction="none")
    return segment_sum(losses * weights, points.batch, points.k)


@dataclass(frozen=True, kw_only=True)
class BatchedMLP(Method):
    """Local training of an MLP in batches, which ``fed-mlp`` and ``mlp`` share."""

    tasks = ("nodes",)
    weighs_classes = False

    model: Model = field(default_factory=bare_mlp)
    optimizer: Optimizer = field(default_factory=lambda: SGD(lr=0.1))
    epochs: int = 10
    batch: int = option(0, at_least=0, why="0 means all of a client's points")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.model, MLP):
            raise AtollError(
                f"the method {self.registered_name} trains an MLP and no other model; set "
                f"model.name=mlp."
            )

    def local_training(self, client: Client, model: Params) -> Params:
        """``epochs`` updates, each on a batch of its own."""
        points = training_points(client.cohort)
        weights = iter(batch_weights(points, self.batch, self.epochs, client.rng))

        def objective(w: Params) -> Tensor:
            return weighted_loss(self.model.apply(w, points, client.rng), points, next(weights))

        trained: Params = client.descend(objective, client.owned(model))
        client.state["model"] = trained
        return trained
