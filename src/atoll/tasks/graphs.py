"""Graph classification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from torch import Tensor

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.graph import Graph, node_mask
from atoll.models.base import Model
from atoll.options import option
from atoll.rng import CohortRng
from atoll.tasks.base import Pass, Step, tasks
from atoll.tasks.mini_batches import one_pass
from atoll.tasks.node_loss import nll_of_targets
from atoll.tasks.nodes import Classification


@tasks.register("graphs")
@dataclass(frozen=True, kw_only=True)
class GraphClassification(Classification):
    """Each small graph's class, from its nodes and edges; scored by accuracy.

    A client holds many small graphs, and graphs are what it trains, validates and tests on. The
    model reads the nodes of a graph out into one row, which it classifies.

    Every client divides its own graphs, so that each has graphs in every part: shares ``val`` and
    ``test``, at least one graph each, with the classes spread over the parts as evenly as they go;
    GCFL has 80/10/10 this way. ``divided = "before"`` keeps the parts of ``[split]`` instead, which
    are drawn before the data is dealt out.

    ``batch`` is the size of mini-batches: an epoch is then one pass over a client's training
    graphs, shuffled, in steps of so many (GCFL has 128). 0 is the full batch, one step per epoch.
    Clients with more graphs take more steps; a client whose graphs fit into one batch shuffles
    nothing.
    """

    usual_model: ClassVar[str] = "gin"

    val: float = option(0.1, above=0, below=1)
    test: float = option(0.1, above=0, below=1)
    divided: Literal["by-clients", "before"] = "by-clients"
    batch: int = option(0, at_least=0, why="0 is the full batch")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.val + self.test >= 1:
            raise AtollError(
                f"task.val is {self.val} and task.test {self.test}; together they must stay below "
                f"1, to leave graphs to train on."
            )

    def prepare(self, graph: Graph, rng: np.random.Generator) -> Graph:
        if graph.graph_of is None:
            raise AtollError(
                f"{graph.name} is one graph, not a collection of small ones with a class each; "
                f"choose such data (tu-mutag, for one) or the task 'nodes'."
            )
        if self.divided == "by-clients":
            train, val, test = divided(graph, self.val, self.test, rng)
            graph = graph.relabelled(y=graph.y, train=train, val=val, test=test, name=graph.name)
        return self.with_noise(graph, rng)

    def missing(self, graph: Graph) -> str:
        return "" if graph.train.any() else "training graph"

    def refuse_model(self, model: Model) -> None:
        if not model.reads_out:
            raise AtollError(
                f"the model '{model.registered_name}' has no read-out, so it can't classify whole "
                f"graphs; choose gin or gcn."
            )

    def loss(
        self,
        model: Model,
        params_K: Mapping[str, Tensor],
        cohort: Cohort,
        rng: CohortRng | None = None,
    ) -> Tensor:
        """Each client's mean cross-entropy over its training graphs ``[K]``."""
        logits = model.apply_at(params_K, cohort, cohort.targets("train"), rng)
        return nll_of_targets(logits, cohort, self.class_weight)

    def passes(self, model: Model, cohort: Cohort, rng: CohortRng) -> Pass | None:
        if not self.batch:
            return None

        def steps() -> Iterator[Step]:
            return one_pass(cohort, rng, self.batch)

        return steps


def divided(
    graph: Graph, val: float, test: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training, validation and test graphs of one client, as masks of their first nodes ``[n]``.

    Of a class with m graphs, the i-th in random order stands at ``(i + u) / m``, u random per
    class. In the order of these places, any run of graphs has the classes in about their shares:
    the first ones test, the next validate, the others train.
    """
    labelled = np.flatnonzero(graph.y >= 0)
    place = np.empty(len(labelled))
    for label in np.unique(graph.y[labelled]):
        members = rng.permutation(np.flatnonzero(graph.y[labelled] == label))
        place[members] = (np.arange(len(members)) + rng.random()) / len(members)
    ordered = labelled[np.argsort(place, kind="stable")]
    sizes = [round(share * len(ordered)) for share in (test, val)]
    if len(ordered) > 2:
        sizes = [max(1, size) for size in sizes]
    tested, validated, trained = np.split(ordered, np.cumsum(sizes))
    return (
        node_mask(trained, graph.nodes),
        node_mask(validated, graph.nodes),
        node_mask(tested, graph.nodes),
    )
