"""Every node is a client of its own."""

from dataclasses import dataclass

import numpy as np

from atoll.errors import AtollError
from atoll.graph import Graph
from atoll.options import option
from atoll.partition.base import Partition, by_nodes, partitions


@partitions.register("node-per-client")
@dataclass(frozen=True, kw_only=True)
class NodePerClient(Partition):
    """Every node is a client; the graph is the network among the clients (GFL).

    Wu et al., 2022, Section 3.2: nodes of the graph are the clients, each with its own feature
    vector and label and nobody else's. Client k holds node k alone, without edges: its links to
    others are no data of its own but the network of clients, which GFL's server knows (Algorithm
    1 has it compute with the propagation matrix). :func:`atoll.partition.network.client_network`
    gives that network from the whole graph and the clients.

    Nodes outside the training set make clients without a training node. Where a client has
    several data points, they are the nodes of a natural holding: use ``natural`` there.
    """

    clients: int = option(0, at_least=0, why="0 means every node")

    def _cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]:
        if self.clients not in (0, graph.nodes):
            raise AtollError(
                f"partition.clients is {self.clients}, but {graph.name} has {graph.nodes} nodes "
                f"and each is a client; leave partition.clients out."
            )
        return by_nodes(graph, np.arange(graph.nodes)[:, None])
