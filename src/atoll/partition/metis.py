"""Disjoint communities by METIS."""

from dataclasses import dataclass

import numpy as np

from atoll.errors import AtollError
from atoll.graph import Graph
from atoll.partition.base import Partition, by_owner, partitions


@partitions.register("metis")
@dataclass(frozen=True, kw_only=True)
class Metis(Partition):
    """Disjoint, balanced parts with few edges between them (Karypis and Kumar, 1998)."""

    def _cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]:
        if self.clients == 1:
            return [graph]
        owner = metis_owner(graph, self.clients, int(rng.integers(2**31)))
        empty = np.flatnonzero(np.bincount(owner, minlength=self.clients) == 0)
        if len(empty):
            raise AtollError(
                f"METIS left client {empty[0]} of {self.clients} without nodes of {graph.name}; "
                f"ask for fewer clients."
            )
        return by_owner(graph, owner, self.clients)


def metis_owner(graph: Graph, parts: int, seed: int) -> np.ndarray:
    """The part of each node ``[n]``."""
    import pymetis

    a = graph.adjacency if graph.undirected else (graph.adjacency + graph.adjacency.T).tocsr()
    neighbours = pymetis.CSRAdjacency(a.indptr.astype(np.int32), a.indices.astype(np.int32))
    _, owner = pymetis.part_graph(parts, neighbours, options=pymetis.Options(seed=seed))
    return np.asarray(owner)
