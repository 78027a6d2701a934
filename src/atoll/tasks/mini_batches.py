"""Mini-batches of small graphs, for K clients that have different numbers of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from atoll.cohort import Cohort
from atoll.cohort.k_hop import part_of
from atoll.graph import PER_GRAPH, Graph, nodes_of_graphs
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
        parts = [
            _of_graphs(graph, batches[step] if step < len(batches) else batches[0][:1], keep)
            for graph, batches, keep in zip(cohort.graphs, batches_K, once_K, strict=True)
        ]
        return cohort.with_graphs(parts)

    once_K = [len(batches) == 1 for batches in batches_K]
    return cohort.cached("the only mini-batch", build) if all(once_K) else build()


def _of_graphs(graph: Graph, chosen: np.ndarray, keep: bool) -> Graph:
    """Some of a client's small graphs, with labels and splits as they are now."""
    assert graph.graph_of is not None
    nodes = nodes_of_graphs(graph.graph_of, chosen)
    if not keep:
        part = graph.subgraph(nodes)
        for what, rows in graph.derived.items():
            if str(what).startswith(PER_GRAPH) and isinstance(rows, np.ndarray):
                part.derived[what] = rows[nodes]
        return part
    return part_of(graph, nodes).relabelled(
        y=graph.y[nodes],
        train=graph.train[nodes],
        val=graph.val[nodes],
        test=graph.test[nodes],
        name=graph.name,
    )
