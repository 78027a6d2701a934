"""What a partition is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from atoll.errors import AtollError
from atoll.graph import Graph, disjoint_parts, nodes_of
from atoll.options import check_options, option
from atoll.registry import Registry

partitions: Registry[Partition] = Registry(
    "partition", "atoll.partition", lambda: Partition, "atoll.partitions"
)


@dataclass(frozen=True, kw_only=True)
class Partition(ABC):
    """Cuts one graph into ``clients`` private ones.

    A cut follows from the graph, the options and the random stream alone. Every copy of a node
    keeps its id and, but for bare copies (``borders``), features, label and place in the splits.
    """

    registered_name: ClassVar[str]
    # Whether it leaves the small graphs of a collection whole.
    keeps_graphs: ClassVar[bool] = False
    clients: int = option(10, at_least=1)

    def __post_init__(self) -> None:
        check_options("partition", self)

    def cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]:
        """The parties' graphs. The same id means the same entity."""
        if self.clients > graph.nodes:
            raise AtollError(
                f"{graph.name} has {graph.nodes} nodes and can't be cut into {self.clients} "
                f"clients; ask for fewer."
            )
        if graph.graph_of is not None and not self.keeps_graphs:
            raise AtollError(
                f"{graph.name} is a collection of small graphs, which the partition "
                f"'{self.registered_name}' would cut through; choose 'chunks', or 'natural' where "
                f"the data knows its owners."
            )
        return self._cut(graph, rng)

    def statistics(self, graph: Graph, rng: np.random.Generator) -> dict[str, float]:
        """Statistics of a cut that the parties' graphs alone do not show, for tables."""
        return {}

    @abstractmethod
    def _cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]: ...


def by_nodes(graph: Graph, nodes_K: Iterable[np.ndarray]) -> list[Graph]:
    """The induced graph of each client's nodes; edges that nobody has both ends of are lost."""
    nodes_K = list(nodes_K)
    names = [f"{graph.name} client {k}" for k in range(len(nodes_K))]
    parts = disjoint_parts(graph, nodes_K, names)
    if parts is None:
        return [graph.subgraph(n, name=name) for n, name in zip(nodes_K, names, strict=True)]
    return parts


def by_owner(graph: Graph, owner: np.ndarray, clients: int) -> list[Graph]:
    """The induced graphs of disjoint owners ``[n]``; edges between owners are lost."""
    return by_nodes(graph, nodes_of(owner, clients))
