"""Clients whose parts differ in how densely, or how alike, nodes are linked."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from atoll.errors import AtollError
from atoll.graph import Graph
from atoll.options import option
from atoll.partition.base import Partition, by_owner, partitions
from atoll.partition.metis import metis_parts


@partitions.register("topology-skew")
@dataclass(frozen=True, kw_only=True)
class TopologySkew(Partition):
    """Small METIS parts, sorted by degree or homophily and dealt out in that order.

    The graph is cut into ``parts`` times as many METIS parts as clients. Parts are sorted by their
    mean degree (``by = "degree"``) or by the share of their edges that join nodes of one class
    (``"homophily"``; edges of unlabelled nodes don't count, and a part without any is half), both
    among edges inside the part. The first client gets the ``parts`` lowest, the last the highest:
    edges inside parts stay, none is invented.

    OpenFGL sorts whole graphs by mean degree for graph-level tasks and has nothing of the kind for
    one graph's nodes; this is the same idea for these. ``skew`` below 1 mixes the order: a part's
    place is ``skew`` times its own plus ``1 - skew`` times a random one. At 0 METIS parts are dealt
    out at random.
    """

    by: Literal["degree", "homophily"] = "degree"
    parts: int = option(10, at_least=1)
    skew: float = option(1.0, at_least=0, at_most=1)

    def _cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]:
        count = self.parts * self.clients
        if count > graph.nodes:
            raise AtollError(
                f"{graph.name} has {graph.nodes} nodes and can't be cut into {count} parts for "
                f"{self.clients} clients; lower partition.parts or partition.clients."
            )
        part = metis_parts(graph, count, rng) if count > 1 else np.zeros(graph.nodes, np.int64)
        own = np.argsort(np.argsort(self._measure(graph, part, count), kind="stable"))
        place = self.skew * own + (1 - self.skew) * rng.permutation(count)
        client = np.empty(count, dtype=np.int64)
        client[np.argsort(place, kind="stable")] = np.arange(count) // self.parts
        return by_owner(graph, client[part], self.clients)

    def _measure(self, graph: Graph, part: np.ndarray, count: int) -> np.ndarray:
        """What parts are sorted by ``[count]``."""
        source, target = graph.edges
        inside = part[source] == part[target]
        if self.by == "degree":
            edges = np.bincount(part[source[inside]], minlength=count)
            degree: np.ndarray = edges / np.bincount(part, minlength=count)
            return degree
        inside &= (graph.y[source] >= 0) & (graph.y[target] >= 0)
        source, target = source[inside], target[inside]
        alike = np.bincount(part[source], graph.y[source] == graph.y[target], minlength=count)
        known = np.bincount(part[source], minlength=count)
        homophily: np.ndarray = np.where(known > 0, alike / np.maximum(known, 1), 0.5)
        return homophily
