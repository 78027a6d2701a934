"""Node classification."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from atoll.cohort import Cohort
from atoll.graph import SPLITS, Graph
from atoll.models.base import Model
from atoll.ops.ragged import segment_sum
from atoll.options import option
from atoll.rng import CohortRng
from atoll.tasks.base import Task, tasks
from atoll.tree import Params


@tasks.register("nodes")
@dataclass(frozen=True, kw_only=True)
class NodeClassification(Task):
    """Each node's class, from its features and neighbours; scored by accuracy.

    ``label_noise`` is the share of its training nodes of which each client has the class wrong:
    another one, drawn uniformly by the client itself, so that two clients that hold the same node
    may err differently (PPFL-GNN's Cora_noise: 0.15). Validation and test labels stay right.
    """

    metric: ClassVar[str] = "accuracy"
    depends_on_splits: ClassVar[bool] = True
    label_noise: float = option(
        0.0, at_least=0, at_most=1, why="it is a share of the training labels"
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
        """Each client's mean cross-entropy over its training nodes ``[K]``."""
        part = cohort.k_hop(model.reach, "train")
        return nll_of_targets(model.apply_at(params_K, part, part.targets("train"), rng), part)

    def gradient(
        self,
        model: Model,
        params_K: Mapping[str, Tensor],
        cohort: Cohort,
        rng: CohortRng | None = None,
    ) -> Params:
        with torch.no_grad():
            written_out = model.vjp(params_K, cohort)
            if written_out is not None:
                logits, pull = written_out
                return pull(nll_errors(logits, cohort))
        return super().gradient(model, params_K, cohort, rng)

    def scores(self, model: Model, params_K: Mapping[str, Tensor], cohort: Cohort) -> Params:
        return _scores(lambda rows: model.predict(params_K, cohort, rows), cohort)


def nll(logits: Tensor, cohort: Cohort) -> Tensor:
    """Each client's mean cross-entropy over its training nodes, ``[N, classes] -> [K]``."""
    return nll_of_targets(logits[cohort.rows("train")], cohort)


def nll_of_targets(logits: Tensor, cohort: Cohort) -> Tensor:
    """The same from the scores of training nodes alone, ``[R, classes] -> [K]``."""
    _, y, client, count = _training_nodes(cohort)
    losses = cross_entropy(logits, y, reduction="none")
    return segment_sum(losses, client, cohort.k) / count


def nll_errors(logits: Tensor, cohort: Cohort) -> Tensor:
    """The gradient of :func:`nll` with respect to the class scores ``[N, classes]``.

    That is ``(softmax - one-hot) / n_k`` at the n_k training nodes of client k, else zero.
    """
    rows, y, client, count = _training_nodes(cohort)

    def shares() -> tuple[Tensor, Tensor]:
        right = torch.zeros((len(rows), logits.shape[1]), dtype=logits.dtype)
        return right.scatter_(1, y[:, None], 1.0), 1.0 / count[client, None].to(logits.dtype)

    right, share = cohort.cached(f"training shares of {logits.shape[1]} classes", shares)
    errors = logits[rows].softmax(1).sub_(right).mul_(share)
    return torch.zeros_like(logits).index_copy_(0, rows, errors)


def _training_nodes(cohort: Cohort) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training nodes, their classes and clients, and how many each client has, at least one."""

    def find() -> tuple[Tensor, Tensor, Tensor, Tensor]:
        rows = cohort.rows("train")
        client = cohort.batch[rows]
        return rows, cohort.y[rows], client, torch.bincount(client, minlength=cohort.k).clamp(min=1)

    return cohort.cached("training nodes", find)


def node_scores(logits: Tensor, cohort: Cohort) -> Params:
    """Accuracy, loss and size of each client's train, val and test nodes, ``[K, 3]`` each."""
    return _scores(lambda rows: logits[rows], cohort)


def _scores(logits_of: Callable[[Tensor], Tensor], cohort: Cohort) -> Params:
    rows, cell, size = cohort.cached("scored", lambda: _scored(cohort))
    chosen, y = logits_of(rows), cohort.y[rows]
    losses = cross_entropy(chosen, y, reduction="none").double()
    right = (chosen.argmax(1) == y).double()
    columns = {
        "accuracy": segment_sum(right, cell, len(size)) / size.clamp(min=1),
        "loss": segment_sum(losses, cell, len(size)) / size.clamp(min=1),
        "nodes": size.double(),
    }
    return {name: column.view(cohort.k, len(SPLITS)) for name, column in columns.items()}


def _scored(cohort: Cohort) -> tuple[Tensor, Tensor, Tensor]:
    """The nodes of some split, the cell (client and split) of each, and the size of each cell."""
    rows = [cohort.rows(split) for split in SPLITS]
    cell = torch.cat([cohort.batch[r] * len(SPLITS) + i for i, r in enumerate(rows)])
    return torch.cat(rows), cell, torch.bincount(cell, minlength=cohort.k * len(SPLITS))
