"""Clients in a ring, each sharing nodes with the next."""

from dataclasses import dataclass

import numpy as np

from atoll.graph import Graph
from atoll.options import option
from atoll.partition.base import Partition, by_nodes, partitions


@partitions.register("ring-overlap")
@dataclass(frozen=True, kw_only=True)
class RingOverlap(Partition):
    """Nodes dealt out evenly so that clients next in index share a fraction of theirs (GraphFL).

    Wang et al., 2020, Section 5.2.3: "we evenly distribute the total nodes to all clients such that
    any two clients with neighboring indexes have a fraction gamma of overlapped nodes"; a client
    has the edges among its nodes. ``gamma`` is that fraction.

    Choices. The nodes are shuffled and cut into K equal arcs of a circle; client k has arc k and
    the first ``n/K * gamma / (1 - gamma)`` nodes (rounded down) of the next arc, the last client
    those of the first arc. So each neighbour has ``gamma`` of a client's nodes. Up to gamma = 0.5
    only neighbours overlap, so that is the most. Two clients are each other's neighbour on both
    sides: there ``n/2 * gamma / (2 - gamma)`` from each side make up the fraction.
    """

    gamma: float = option(0.3, at_least=0, at_most=0.5)

    def _cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]:
        arcs = np.array_split(rng.permutation(graph.nodes), self.clients)
        lent = self._lent(graph.nodes)
        nexts = arcs[1:] + arcs[:1]
        return by_nodes(
            graph,
            (
                np.sort(np.concatenate([arc, following[:lent]]))
                for arc, following in zip(arcs, nexts, strict=True)
            ),
        )

    def _lent(self, nodes: int) -> int:
        """How many nodes a client has of the next one's arc."""
        if self.clients == 1:
            return 0
        sides = 2 if self.clients == 2 else 1
        # A hair more, so that 7 * 0.3 / 0.7 is 3 and not just below it.
        return int(nodes / self.clients * self.gamma / (sides - self.gamma) + 1e-9)
