"""Everybody holds the whole graph; the labels are dealt out."""

from dataclasses import dataclass

import numpy as np

from atoll.errors import AtollError
from atoll.graph import Graph, node_mask
from atoll.partition.base import Partition, partitions


@partitions.register("shared-graph")
@dataclass(frozen=True, kw_only=True)
class SharedGraph(Partition):
    """Every client holds the complete graph; the labels are dealt out evenly (GraphFL).

    Wang et al., 2020, Sections 5.1.3 and 5.1.4: the training nodes (80 a class) are dealt evenly to
    50 clients, 9 to 70 for each, so that few classes are left at any one of them; each client's
    are halved into support nodes, which train, and query nodes, which tune; the testing nodes are
    the same for all.

    Here the training nodes and the validation nodes are each dealt out at random, in equal
    numbers (give or take one), as the paper's two halves. A client does not have the labels dealt
    to the others: they are unknown (-1) in its graph. The test nodes are everybody's. Labels of
    nodes in no split stay, for measuring pseudo-labels.

    The clients' graphs share their memory, and what is computed from features and edges.
    """

    def _cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]:
        dealt = {split: _dealt(graph, split, self.clients, rng) for split in ("train", "val")}
        clients = []
        for k in range(self.clients):
            train, val = (node_mask(dealt[split][k], graph.nodes) for split in ("train", "val"))
            hidden = (graph.train | graph.val) & ~(train | val | graph.test)
            clients.append(
                graph.relabelled(
                    y=np.where(hidden, -1, graph.y),
                    train=train,
                    val=val,
                    name=f"{graph.name} client {k}",
                )
            )
        return clients


def _dealt(graph: Graph, split: str, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
    nodes = np.flatnonzero(getattr(graph, split))
    if split == "train" and len(nodes) < clients:
        raise AtollError(
            f"{graph.name} has {len(nodes)} training nodes for {clients} clients; enlarge the "
            f"training split or ask for fewer clients."
        )
    return np.array_split(rng.permutation(nodes), clients)
