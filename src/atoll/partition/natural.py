"""The parties that the data itself knows of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from atoll.errors import AtollError
from atoll.graph import Graph, Holding, disjoint_parts
from atoll.options import option
from atoll.partition.base import Partition, partitions


@partitions.register("natural")
@dataclass(frozen=True, kw_only=True)
class Natural(Partition):
    """One client per natural owner in the data; nothing is invented.

    ``clients`` takes only so many, the largest first; 0, the default, takes all in the order of
    the data, so that parties written to folders and read back keep their numbers.
    """

    keeps_graphs: ClassVar[bool] = True
    clients: int = option(0, at_least=0, why="0 means every owner")

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
        chosen = graph.holdings
        if self.clients:
            chosen = tuple(sorted(chosen, key=lambda h: -len(h.nodes))[: self.clients])
        return held(graph, chosen)


def held(graph: Graph, holdings: Sequence[Holding]) -> list[Graph]:
    """Each party's graph."""
    plain = all(h.edges is None and h.view is None and not h.space for h in holdings)
    names = [f"{graph.name} {holding.name}" for holding in holdings]
    nodes_K = [holding.nodes for holding in holdings]
    parts = disjoint_parts(graph, nodes_K, names, with_holdings=False) if plain else None
    return [graph.held(holding) for holding in holdings] if parts is None else parts
