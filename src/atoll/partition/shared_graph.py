"""Everybody holds the whole graph; the labels are dealt out."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from atoll.errors import AtollError
from atoll.graph import Graph, node_mask
from atoll.partition.base import Partition, partitions


@partitions.register("shared-graph")
@dataclass(frozen=True, kw_only=True)
class SharedGraph(Partition):
    """Every client holds the complete graph; the labels are dealt out evenly (GraphFL).

    Wang et al., 2020, Sections 5.1.3 and 5.1.4: the training nodes (80 per class) are dealt evenly
    to 50 clients, 9 to 70 for each, so that few classes are left at any one of them; each client's
    are halved into support nodes, which train, and query nodes, which tune; the testing nodes are
    the same for all.

    Here the training nodes and the validation nodes are each dealt out at random, in equal
    numbers (give or take one), as the paper's two halves. With ``halve`` they are dealt out
    together, and each client halves what it was dealt: the paper's order, by which everybody has a
    node to train on (an odd one trains) as soon as there are as many labels as clients. A client
    does not have the labels dealt to the others: they are unknown (-1) in its graph. The test nodes
    are everybody's. Labels of nodes in no split stay, for measuring pseudo-labels.

    The clients' graphs share their memory, and what is computed from features and edges.
    """

    halve: bool = False

    def _cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]:
        clients = []
        for k, (trains, validates) in enumerate(self._dealt(graph, rng)):
            train, val = (node_mask(nodes, graph.nodes) for nodes in (trains, validates))
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

    def _dealt(
        self, graph: Graph, rng: np.random.Generator
    ) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        """Each client's training and validation nodes."""
        if self.halve:
            own_K = _dealt(graph, graph.train | graph.val, "labelled", self.clients, rng)
            return [(own[: -(-len(own) // 2)], own[-(-len(own) // 2) :]) for own in own_K]
        train_K = _dealt(graph, graph.train, "training", self.clients, rng)
        return zip(train_K, _deal(graph.val, self.clients, rng), strict=True)


def _dealt(
    graph: Graph, mask: np.ndarray, what: str, clients: int, rng: np.random.Generator
) -> list[np.ndarray]:
    if mask.sum() < clients:
        raise AtollError(
            f"{graph.name} has {mask.sum()} {what} nodes for {clients} clients; enlarge the "
            f"training split or ask for fewer clients."
        )
    return _deal(mask, clients, rng)


def _deal(mask: np.ndarray, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
    return np.array_split(rng.permutation(np.flatnonzero(mask)), clients)
