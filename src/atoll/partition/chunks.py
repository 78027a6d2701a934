"""Small graphs dealt out as they follow each other in the data."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from atoll.errors import AtollError
from atoll.graph import Graph, nodes_of, nodes_of_graphs
from atoll.options import option
from atoll.partition.base import Partition, by_nodes, partitions


@partitions.register("chunks")
@dataclass(frozen=True, kw_only=True)
class Chunks(Partition):
    """A collection of small graphs in chunks, as GCFL's code deals out one dataset.

    Every client gets a run of ``block`` graphs as they follow each other in the data (fewer where
    there are not so many), and each graph that is left goes to a client drawn at random. Published
    collections are often sorted by class or kind, so runs differ from each other. With ``block`` 0
    all graphs are dealt out at random, in equal numbers.
    """

    keeps_graphs: ClassVar[bool] = True
    block: int = option(50, at_least=0)

    def _cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]:
        if graph.graph_of is None:
            raise AtollError(
                f"{graph.name} is one graph, not a collection of small ones that could be dealt "
                f"out; choose another partition, e.g. metis."
            )
        count, k = len(graph.first_nodes), self.clients
        if k > count:
            raise AtollError(
                f"{graph.name} has {count} graphs and can't be dealt out to {k} clients; ask for "
                f"fewer."
            )
        if self.block == 0:
            owner = rng.permutation(np.arange(count) % k)
        else:
            run = min(self.block, count // k)
            rest = rng.integers(k, size=count - run * k)
            owner = np.concatenate([np.repeat(np.arange(k), run), rest])
        chosen_K = nodes_of(owner, k)
        return by_nodes(graph, [nodes_of_graphs(graph.graph_of, chosen) for chosen in chosen_K])
