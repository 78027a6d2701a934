"""Node classification."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from atoll.cohort import Cohort
from atoll.data.disturb import with_wrong_labels
from atoll.device import of_numpy
from atoll.errors import AtollError
from atoll.graph import SPLITS, Graph
from atoll.kernels import fit
from atoll.models.base import Model, WrittenPullback
from atoll.ops.ragged import segment_sum
from atoll.ops.written_out import ProductGradient, losses_and_guesses
from atoll.ops.written_out import cross_entropy as written_out_nll
from atoll.options import option
from atoll.rng import CohortRng
from atoll.tasks.base import Pass, Step, Task, tasks
from atoll.tasks.metrics import EXTENDED, Cells
from atoll.tasks.node_batches import (
    USUAL_CLUSTER,
    cluster_pass,
    in_blocks,
    neighbour_pass,
    refuse_idle_options,
    settled_fanout,
    undivided,
)
from atoll.tasks.node_loss import (
    CLASS_WEIGHTS,
    class_weights,
    nll_errors,
    nll_of_targets,
    shares_of_nodes,
    training_nodes,
)
from atoll.tasks.pooled import LISTENER
from atoll.tree import Params


@dataclass(frozen=True, kw_only=True)
class Classification(Task):
    """What classifying nodes and classifying small graphs have in common: labels and scores.

    Its options are explained with :class:`NodeClassification`.
    """

    metric: ClassVar[str] = "accuracy"
    extended: ClassVar[tuple[str, ...]] = EXTENDED
    label_noise: float = option(
        0.0, at_least=0, at_most=1, why="it is a share of the training labels"
    )
    class_weight: Literal["none", "balanced"] = "none"
    positive: int | str = ""
    precision: float = option(0.9, above=0, at_most=1)
    areas: Literal["auto", "always"] = "auto"

    def with_noise(self, graph: Graph, rng: np.random.Generator) -> Graph:
        """A client's graph with some of its training labels wrong."""
        if self.label_noise == 0 or graph.classes < 2:
            return graph
        return with_wrong_labels(graph, self.label_noise, rng)

    def missing(self, graph: Graph) -> str:
        return "" if graph.train.any() else "training node"

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
                return pull(nll_errors(logits, cohort, self.class_weight))
        return super().gradient(model, params_K, cohort, rng)

    def scores(self, model: Model, params_K: Mapping[str, Tensor], cohort: Cohort) -> Params:
        return self.scores_of(lambda rows: model.predict(params_K, cohort, rows), cohort)

    def scores_of(self, logits_of: Callable[[Tensor], Tensor], cohort: Cohort) -> Params:
        """Scores from the class scores of some rows ``[R] -> [R, classes]``."""
        rows, y, cell, size = cohort.cached("scored", lambda: _scored(cohort))
        chosen = logits_of(rows)
        if fit(chosen):
            losses, guess = losses_and_guesses(chosen, y)
        else:
            losses = cross_entropy(chosen, y, reduction="none").double()
            guess = chosen.argmax(1)
        right = (guess == y).double()
        columns = {
            "accuracy": segment_sum(right, cell, len(size)) / size.clamp(min=1),
            "loss": segment_sum(losses, cell, len(size)) / size.clamp(min=1),
            "nodes": size.double(),
        }
        classes, positive = chosen.shape[1], self._positive(cohort.graphs[0])
        if classes == 2 and positive not in (0, 1):
            positive = 1  # a model of two classes on a graph that has more
        ranked = (positive,) if classes == 2 else tuple(range(classes))
        cells = cohort.cached(
            f"cells of {classes} classes, {ranked}",
            lambda: Cells(y.cpu().numpy(), cell.cpu().numpy(), len(size), classes, ranked),
        )
        now = classes == 2 or self.areas == "always"
        scores = _ranking_scores(chosen, ranked) if now else None
        listener = LISTENER.get()
        if listener is not None:
            listener.hear(
                cohort.clients,
                cells,
                guess.cpu().numpy(),
                lambda: _ranking_scores(chosen, ranked) if scores is None else scores,
                losses.cpu().numpy(),
                positive,
                self.precision,
                cohort.graphs[0].class_names,
            )
        extended = cells.extended(guess.cpu().numpy(), scores, positive, self.precision)
        columns["extended"] = of_numpy(extended)
        return {
            name: column.view(cohort.k, len(SPLITS), *column.shape[1:])
            for name, column in columns.items()
        }

    def settled(self, graphs: Sequence[Graph]) -> Self:
        """With the positive class as a number, if there are two classes."""
        first = graphs[0]
        if self.positive != "":
            return replace(self, positive=self._positive(first))
        return replace(self, positive=rarer_class(graphs)) if first.classes == 2 else self

    def _positive(self, graph: Graph) -> int:
        """The number of the positive class, -1 if there is none; of two, the last by default."""
        if self.positive == "":
            return 1 if graph.classes == 2 else -1
        names = [*graph.class_names, *map(str, range(graph.classes))]
        if str(self.positive) not in names:
            known = graph.class_names or names
            raise AtollError(
                f"task.positive is '{self.positive}', which is no class; write one of "
                f"{', '.join(known)}."
            )
        return names.index(str(self.positive)) % graph.classes


@tasks.register("nodes")
@dataclass(frozen=True, kw_only=True)
class NodeClassification(Classification):
    """Each node's class, from its features and neighbours; scored by accuracy.

    ``label_noise`` is the share of its training nodes of which each client has the class wrong:
    another one, drawn uniformly by the client itself, so that two clients that hold the same node
    may err differently (PPFL-GNN's Cora_noise: 0.15). Validation and test labels stay right.

    ``class_weight = "balanced"`` lets every class that a client has count the same in its training
    loss: a node of class c counts ``n_k / (C_k n_kc)``, with ``n_k`` the client's own training
    nodes, ``n_kc`` those of the class and ``C_k`` the number of classes among them.

    Of two classes, ``positive`` (a name or number) is the one that F1, ROC-AUC, PR-AUC and recall
    are about; by default the rarer one among training nodes. ``precision`` is what the recall
    (``recall_at_precision``) is taken at. Losses that are reported are never weighted.

    Areas and recalls of more than two classes take a sort of the nodes per class, which a round of
    a small federation would feel; ``areas = "always"`` has them in every scored round all the same.

    **Mini-batches**, for graphs that are too large to train on as a whole. With ``batch`` above 0
    an epoch is one pass over a client's data in shuffled batches, and scores are taken a few
    clients at a time. A batch that holds all that a client has is one step.

    - ``sampler = "neighbour"``: a step sees ``batch`` training nodes and, as in GraphSAGE (Hamilton
      et al., 2017), ``fanout[0]`` neighbours of each, ``fanout[1]`` of each of those, and so on (0:
      all; by default 10 at each hop). With one number per hop beyond the model's first layer, that
      layer's propagated features are exact; with one more they are sampled too. Degrees are the
      whole graph's, and what is drawn counts for what is not, so that sums are right on average
      (:class:`atoll.cohort.sampled.Sampled`).
    - ``sampler = "cluster"``: a client's graph is divided into ``clusters`` METIS parts once (0:
      one per 200 nodes), and a step sees ``batch`` of them with the edges between them, as in
      Cluster-GCN (Chiang et al., 2019), and with the degrees of that smaller graph.
    """

    depends_on_splits: ClassVar[bool] = True
    batch: int = option(0, at_least=0, why="0 is the full batch")
    sampler: Literal["neighbour", "cluster"] = "neighbour"
    fanout: tuple[int, ...] = option((), at_least=0, why="0 takes all neighbours")
    clusters: int = option(0, at_least=0, why=f"0 is one per {USUAL_CLUSTER} nodes")

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_idle_options(self.batch, self.sampler, self.fanout, self.clusters)

    def prepare(self, graph: Graph, rng: np.random.Generator) -> Graph:
        if graph.graph_of is not None:
            raise AtollError(
                f"{graph.name} is a collection of small graphs whose classes are those of whole "
                f"graphs, not of nodes; choose the task 'graphs'."
            )
        return self.with_noise(graph, rng)

    def refuse_model(self, model: Model) -> None:
        if self.batch and self.sampler == "neighbour":
            settled_fanout(self.fanout, model)

    def remarks(self, sizes: Sequence[tuple[int, int]]) -> list[str]:
        return undivided(self.batch, self.sampler, self.clusters, sizes)

    def passes(self, model: Model, cohort: Cohort, rng: CohortRng) -> Pass | None:
        if not self.batch:
            return None

        def steps() -> Iterator[Step]:
            if self.sampler == "cluster":
                found = cluster_pass(cohort, rng, self.batch, self.clusters)
            else:
                fanout, exact = settled_fanout(self.fanout, model)
                found = neighbour_pass(cohort, rng, self.batch, fanout, exact)
            for step in found:
                if self.class_weight == "balanced":
                    # A batch has few of a client's nodes: classes count as they do among all.
                    step.cohort.derived[CLASS_WEIGHTS] = class_weights(cohort)
                yield step
                step.cohort.derived.clear()  # it may hold itself, and memory is what this is about

        return steps

    def loss(
        self,
        model: Model,
        params_K: Mapping[str, Tensor],
        cohort: Cohort,
        rng: CohortRng | None = None,
    ) -> Tensor:
        """Each client's mean cross-entropy over its training nodes ``[K]``."""
        part = cohort.k_hop(model.reach, "train")
        if self.class_weight == "balanced":
            part.cached(CLASS_WEIGHTS, lambda: class_weights(cohort))
        logits = model.apply_at(params_K, part, part.targets("train"), rng)
        return nll_of_targets(logits, part, self.class_weight)

    def written_out(
        self,
        model: Model,
        params_K: Mapping[str, Tensor],
        cohort: Cohort,
        rng: CohortRng | None = None,
    ) -> tuple[Tensor, WrittenPullback] | None:
        part = cohort.k_hop(model.reach, "train")
        found = model.vjp_at(params_K, part, part.targets("train"), rng)
        if found is None:
            return None
        logits, pull = found
        if self.class_weight == "balanced":
            part.cached(CLASS_WEIGHTS, lambda: class_weights(cohort))
        _, y, client, _ = training_nodes(part)
        sizes = part.targets("train").sizes
        loss_K, errors = written_out_nll(
            logits, y, shares_of_nodes(part, logits, self.class_weight), sizes
        )

        def pulled(grad_K: Tensor) -> dict[str, Tensor | ProductGradient]:
            alone = bool((grad_K == 1).all())
            return pull(errors if alone else errors * grad_K.index_select(0, client)[:, None])

        return loss_K, pulled

    def scores(self, model: Model, params_K: Mapping[str, Tensor], cohort: Cohort) -> Params:
        if not self.batch:
            return super().scores(model, params_K, cohort)
        return self.scores_of(lambda rows: in_blocks(model, params_K, cohort, rows), cohort)


def rarer_class(graphs: Sequence[Graph]) -> int:
    """Of two classes, the one that fewer training nodes have; the last if both have as many."""
    counts = training_counts(graphs)
    return int(counts[0] >= counts[1])


def training_counts(graphs: Sequence[Graph]) -> np.ndarray:
    """How many training nodes each class has ``[classes]``."""
    y = np.concatenate([graph.y[graph.train] for graph in graphs])
    return np.bincount(y[y >= 0], minlength=graphs[0].classes)


def _ranking_scores(logits: Tensor, ranked: Sequence[int]) -> np.ndarray:
    """How much nodes look like each ranked class ``[R, n]``: log-odds of two, else log-shares."""
    if len(ranked) == 1:
        (c,) = ranked
        return (logits[:, c] - logits[:, 1 - c]).cpu().numpy()[None]
    shares: np.ndarray = logits.log_softmax(1).t().contiguous().cpu().numpy()
    return shares


def node_scores(logits: Tensor, cohort: Cohort, task: Task) -> Params:
    """A task's scores of each client's train, val and test nodes, from all class scores."""
    assert isinstance(task, Classification)
    return task.scores_of(lambda rows: logits[rows], cohort)


def _scored(cohort: Cohort) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The nodes of some split, the class and the cell (client and split) of each, and the size of
    each cell."""
    rows = [cohort.rows(split) for split in SPLITS]
    cell = torch.cat([cohort.batch[r] * len(SPLITS) + i for i, r in enumerate(rows)])
    size = torch.bincount(cell, minlength=cohort.k * len(SPLITS))
    joined = torch.cat(rows)
    return joined, cohort.y[joined], cell, size
