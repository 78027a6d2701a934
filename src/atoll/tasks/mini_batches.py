"""Mini-batches of small graphs, for K clients that have different numbers of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from atoll.cohort import Cohort
from atoll.graph import Graph
from atoll.rng import CohortRng
from atoll.tasks.base import Step


def one_pass(cohort: Cohort, rng: CohortRng, batch: int) -> Iterator[Step]:
    """Steps that show every client each of its training graphs once, ``batch`` at a time.

    Clients that are through wait for the others: their part of a step is a single graph, they are
    not ``active``, and what is drawn for it is not drawn from their own streams. So a client's
    steps do not depend on who else is in the cohort.
    """
    batches_K = [
        _batches(_training_graphs(graph), batch, stream)
        for graph, stream in zip(cohort.graphs, rng.streams, strict=True)
    ]
    for step in range(max(map(len, batches_K))):
        active = torch.tensor([step < len(batches) for batches in batches_K])
        yield Step(_part(cohort, batches_K, step), rng.only(active.tolist()), active)


def _training_graphs(graph: Graph) -> np.ndarray:
    assert graph.graph_of is not None
    chosen: np.ndarray = graph.graph_of[graph.train]
    return chosen


def _batches(graphs: np.ndarray, batch: int, stream: np.random.Generator) -> list[np.ndarray]:
    """Some graphs in parts; in a new order each time, unless they are one part anyway."""
    if len(graphs) <= batch:
        return [graphs]
    return np.array_split(stream.permutation(graphs), range(batch, len(graphs), batch))


def _part(cohort: Cohort, batches_K: Sequence[Sequence[np.ndarray]], step: int) -> Cohort:
    """The clients with the graphs of one step; kept while nobody has more than one step."""

    def build() -> Cohort:
        return cohort.picked(
            [batches[step] if step < len(batches) else batches[0][:1] for batches in batches_K]
        )

    once = all(len(batches) == 1 for batches in batches_K)
    return cohort.cached("the only mini-batch", build) if once else build()
