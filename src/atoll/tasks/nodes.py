"""Node classification."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from atoll.cohort import SPLITS, Cohort
from atoll.errors import AtollError
from atoll.graph import Graph
from atoll.models.base import Model
from atoll.ops.ragged import segment_sum
from atoll.rng import CohortRng
from atoll.tasks.base import Task, tasks
from atoll.tree import Tree


@tasks.register("nodes")
@dataclass(frozen=True, kw_only=True)
class NodeClassification(Task):
    """Each node's class, from its features and neighbours; scored by accuracy.

    ``label_noise`` is the share of its training nodes of which each party has the class wrong:
    another one, drawn uniformly by the party itself, so that two parties that hold the same node
    may err differently (PPFL-GNN's Cora_noise: 0.15). Validation and test labels stay right.
    """

    metric: ClassVar[str] = "accuracy"
    label_noise: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.label_noise <= 1:
            raise AtollError(
                f"task.label_noise is {self.label_noise}; it must be from 0 to 1, a share of the "
                f"training labels."
            )

    def prepare(self, graph: Graph, rng: np.random.Generator) -> Graph:
        if self.label_noise == 0 or graph.classes < 2:
            return graph
        train = np.flatnonzero(graph.train)
        wrong = rng.permutation(train)[: round(self.label_noise * len(train))]
        y = graph.y.copy()
        y[wrong] = (y[wrong] + rng.integers(1, graph.classes, len(wrong))) % graph.classes
        return graph.relabelled(y=y, train=graph.train, val=graph.val, name=graph.name)

    def missing(self, graph: Graph) -> str:
        return "" if graph.train.any() else "training node"

    def loss(
        self,
        model: Model,
        params_K: Mapping[str, Tensor],
        cohort: Cohort,
        rng: CohortRng | None = None,
    ) -> Tensor:
        return model.nll(params_K, cohort, rng)

    def scores(self, model: Model, params_K: Mapping[str, Tensor], cohort: Cohort) -> Tree:
        return _scores(lambda rows: model.predict(params_K, cohort, rows), cohort)


def node_scores(logits: Tensor, cohort: Cohort) -> Tree:
    """Accuracy, loss and size of each client's train, val and test nodes, ``[K, 3]`` each."""
    return _scores(lambda rows: logits[rows], cohort)


def _scores(logits_of: Callable[[Tensor], Tensor], cohort: Cohort) -> Tree:
    rows, cell, size = cohort.cached("scored", lambda: _scored(cohort))
    chosen, y = logits_of(rows), cohort.y[rows]
    losses = cross_entropy(chosen, y, reduction="none").double()
    right = (chosen.argmax(1) == y).double()
    columns = {
        "metric/accuracy": segment_sum(right, cell, len(size)) / size.clamp(min=1),
        "metric/loss": segment_sum(losses, cell, len(size)) / size.clamp(min=1),
        "metric/nodes": size.double(),
    }
    return {name: column.view(cohort.k, len(SPLITS)) for name, column in columns.items()}


def _scored(cohort: Cohort) -> tuple[Tensor, Tensor, Tensor]:
    """The nodes of some split, the cell (client and split) of each, and the size of each cell."""
    rows = [cohort.rows(split) for split in SPLITS]
    cell = torch.cat([cohort.batch[r] * len(SPLITS) + i for i, r in enumerate(rows)])
    return torch.cat(rows), cell, torch.bincount(cell, minlength=cohort.k * len(SPLITS))
