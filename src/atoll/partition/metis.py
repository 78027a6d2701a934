"""Disjoint communities by METIS."""

from dataclasses import dataclass

import numpy as np

from atoll.errors import AtollError
from atoll.graph import Graph
from atoll.partition.base import Partition, by_owner, partitions


@partitions.register("metis")
@dataclass(frozen=True, kw_only=True)
class Metis(Partition):
    """Disjoint, balanced parts with few edges between them (Karypis and Kumar, 1998).

    FED-PUB's non-overlapping scenario (Baek et al., 2023, Appendix B.1): each client gets one of
    the parts and the edges inside it. Recursive bisection up to 8 parts, direct k-way above
    (pymetis' own choice), with METIS' own balance tolerance.

    METIS draws from the C library's generator, seeded from the partition's stream: the same seed
    gives the same cut wherever that library is the same (glibc on Linux).
    """

    def _cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]:
        if self.clients == 1:
            return [graph]
        return by_owner(graph, metis_parts(graph, self.clients, rng), self.clients)


def metis_parts(graph: Graph, parts: int, rng: np.random.Generator) -> np.ndarray:
    """The part of each node ``[n]``; none is empty."""
    if parts > graph.nodes:
        raise AtollError(
            f"{graph.name} has {graph.nodes} nodes and can't be cut into {parts} METIS parts; ask "
            f"for fewer clients."
        )
    owner = metis_owner(graph, parts, int(rng.integers(2**31)))
    empty = np.flatnonzero(np.bincount(owner, minlength=parts) == 0)
    if len(empty):
        raise AtollError(
            f"METIS left part {empty[0]} of {parts} without nodes of {graph.name}; ask for fewer "
            f"clients."
        )
    return owner


def metis_owner(graph: Graph, parts: int, seed: int) -> np.ndarray:
    """The part of each node ``[n]``."""
    import pymetis

    a = graph.adjacency if graph.undirected else (graph.adjacency + graph.adjacency.T).tocsr()
    starts, ends = (part.astype(np.int32, copy=False) for part in (a.indptr, a.indices))
    neighbours = pymetis.CSRAdjacency(starts, ends)
    _, owner = pymetis.part_graph(parts, neighbours, options=pymetis.Options(seed=seed))
    return np.asarray(owner)
