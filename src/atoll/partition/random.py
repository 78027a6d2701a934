"""Nodes dealt out at random."""

from dataclasses import dataclass

import numpy as np

from atoll.graph import Graph
from atoll.partition.base import Partition, by_owner, partitions


@partitions.register("random")
@dataclass(frozen=True, kw_only=True)
class Random(Partition):
    """Nodes dealt out uniformly at random, in equal numbers; most edges are lost."""

    def _cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]:
        owner = rng.permutation(np.arange(graph.nodes) % self.clients)
        return by_owner(graph, owner, self.clients)
