"""The parties that the data itself knows of."""

from dataclasses import dataclass

import numpy as np

from atoll.errors import AtollError
from atoll.graph import Graph
from atoll.partition.base import Partition, partitions


@partitions.register("natural")
@dataclass(frozen=True, kw_only=True)
class Natural(Partition):
    """A client for each natural owner in the data, the largest first; nothing is invented.

    ``clients`` takes only the largest; 0, the default, takes them all.
    """

    clients: int = 0

    def __post_init__(self) -> None:
        if self.clients < 0:
            raise AtollError(f"partition.clients is {self.clients}; 0 means every owner.")

    def _cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]:
        if not graph.holdings:
            raise AtollError(
                f"{graph.name} does not know who owns its nodes; name a column that does, or "
                f"choose another partition."
            )
        if self.clients > len(graph.holdings):
            raise AtollError(
                f"{graph.name} has {len(graph.holdings)} owners, fewer than {self.clients} "
                f"clients; ask for fewer."
            )
        largest = sorted(graph.holdings, key=lambda holding: -len(holding.nodes))
        return [graph.held(holding) for holding in largest[: self.clients or None]]
