"""What a partition is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from atoll.errors import AtollError
from atoll.graph import Graph
from atoll.registry import Registry

partitions: Registry[Partition] = Registry("partition", "atoll.partition")


@dataclass(frozen=True, kw_only=True)
class Partition(ABC):
    """Cuts one graph into ``clients`` private ones."""

    registered_name: ClassVar[str]
    clients: int = 10

    def __post_init__(self) -> None:
        if self.clients < 1:
            raise AtollError(f"partition.clients is {self.clients}; there must be at least 1.")

    def cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]:
        """The parties' graphs. Node ids tell which nodes are the same entity."""
        if self.clients > graph.nodes:
            raise AtollError(
                f"{graph.name} has {graph.nodes} nodes and can't be cut into {self.clients} "
                f"clients; ask for fewer."
            )
        return self._cut(graph, rng)

    @abstractmethod
    def _cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]: ...


def by_owner(graph: Graph, owner: np.ndarray, clients: int) -> list[Graph]:
    """The induced graphs of disjoint owners ``[n]``; edges between owners are lost."""
    return [
        graph.subgraph(np.flatnonzero(owner == k), name=f"{graph.name} client {k}")
        for k in range(clients)
    ]
