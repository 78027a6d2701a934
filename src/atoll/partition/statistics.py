"""Statistics of a partition: what a cut did to a graph, client by client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from atoll.data.connectivity import connectivity
from atoll.graph import Graph
from atoll.partition.network import client_network, entity_rows

_ROWS_AT_ONCE = 20_000


@dataclass(frozen=True, eq=False)
class PartitionStatistics:
    """A whole graph and its parties. Nodes of different parties are the same if their ids are."""

    whole: Graph
    parties: Sequence[Graph]

    @cached_property
    def directed(self) -> bool:
        """Whether edges have directions; then each is counted, and otherwise each pair once."""
        return not self.whole.undirected

    @property
    def _listed(self) -> int:
        """How many columns of ``edges`` are one edge."""
        return 1 if self.directed else 2

    @cached_property
    def places(self) -> list[np.ndarray]:
        """For each client, the numbers of its nodes in the whole graph, found by id."""
        return [entity_rows(self.whole, party) for party in self.parties]

    @cached_property
    def holds(self) -> sparse.csr_array:
        """``[clients, nodes]``: one where a client holds a node of the whole graph."""
        clients = np.repeat(np.arange(len(self.parties)), [len(nodes) for nodes in self.places])
        ones = np.ones(len(clients), dtype=np.int64)
        shape = (len(self.parties), self.whole.nodes)
        return sparse.csr_array((ones, (clients, np.concatenate(self.places))), shape=shape)

    @cached_property
    def anchors(self) -> np.ndarray:
        """Which nodes of the whole graph several clients hold ``[n]``."""
        return np.asarray(self.holds.sum(axis=0) > 1).reshape(-1)

    @cached_property
    def lost(self) -> sparse.csr_array:
        """``[n, n]``: the edges of the whole graph that no client holds."""
        ends = [place[g.edges] for place, g in zip(self.places, self.parties, strict=True)]
        source, target = np.concatenate(ends, axis=1)
        shape = (self.whole.nodes,) * 2
        held = sparse.csr_array((np.ones(len(source)), (target, source)), shape=shape)
        return sparse.csr_array(self.whole.adjacency - self.whole.adjacency.multiply(held > 0))

    @cached_property
    def missing(self) -> np.ndarray:
        """``[clients, clients]``: edges of the whole graph that no client holds, by the clients
        that hold their ends (an end held by several counts for each of them)."""
        pairs = (self.holds @ self.lost @ self.holds.T).toarray()
        if not self.directed:
            np.fill_diagonal(pairs, np.diag(pairs) / 2)
        rounded: np.ndarray = np.rint(pairs).astype(np.int64)
        return rounded

    @cached_property
    def missing_edges(self) -> int:
        """Edges of the whole graph that no client holds, each counted once."""
        return int(self.lost.sum()) // self._listed

    @cached_property
    def labels(self) -> np.ndarray:
        """``[clients, classes]``: how many nodes of each class a client holds."""
        return np.stack(
            [np.bincount(g.y[g.y >= 0], minlength=self.whole.classes) for g in self.parties]
        )

    @cached_property
    def heterogeneity(self) -> float:
        """Median Jensen-Shannon distance of label distributions over all pairs of clients."""
        pairs = self.label_distances[np.triu_indices(len(self.parties), 1)]
        return float(np.median(pairs)) if len(pairs) else 0.0

    @cached_property
    def label_distances(self) -> np.ndarray:
        """``[clients, clients]``: Jensen-Shannon distance of label distributions."""
        shares = self.labels / np.maximum(self.labels.sum(axis=1, keepdims=True), 1)
        return np.array([[jensen_shannon(p, q) for q in shares] for p in shares])

    @cached_property
    def connectivity(self) -> float | None:
        """GFL's ``lambda_max(B_N L^+)`` of the network of clients; None if it falls apart."""
        network = client_network(self.whole, self.parties)
        components, _ = sparse.csgraph.connected_components(network, directed=False)
        return connectivity(network) if components == 1 and len(self.parties) > 1 else None

    @cached_property
    def per_client(self) -> list[dict[str, Any]]:
        """One row per client. Its missing edges are those of the whole graph that touch one of its
        nodes and that it does not hold itself."""
        return [self._row(client) for client in range(len(self.parties))]

    def summary(self) -> dict[str, Any]:
        """The plain facts, ready for JSON."""
        return {
            "nodes": self.whole.nodes,
            "edges": self.whole.edge_count,
            "directed": self.directed,
            "weighted": self.whole.weights is not None,
            "features": self.whole.features,
            "classes": self.whole.classes,
            "clustering": clustering_coefficient(self.whole),
            "clients": len(self.parties),
            "anchors": int(self.anchors.sum()),
            "missing_edges": self.missing_edges,
            "heterogeneity": self.heterogeneity,
            "connectivity": self.connectivity,
            "per_client": self.per_client,
        }

    def figures(self) -> dict[str, float]:
        """What papers tabulate: the whole graph, and means over clients."""
        whole = self.whole
        edges = whole.edge_count

        def mean(column: str) -> float:
            return float(np.mean([row[column] for row in self.per_client]))

        return {
            "whole_nodes": whole.nodes,
            "whole_edges": edges,
            "whole_directed_edges": self._listed * edges,
            "whole_clustering": clustering_coefficient(whole),
            "mean_degree": self._listed * edges / whole.nodes,
            "features": whole.features,
            "classes": whole.classes,
            "label_rate": float(whole.train.mean()),
            "nodes": mean("nodes"),
            "edges": mean("edges"),
            "directed_edges": self._listed * mean("edges"),
            "clustering": mean("clustering"),
            "anchors": mean("anchors"),
            "anchor_share": mean("anchors") / mean("nodes"),
            "heterogeneity": self.heterogeneity,
            # As FED-PUB's Table 4 seems to have it: each client paired with itself as well.
            "heterogeneity_with_self": float(np.median(self.label_distances)),
        }

    def _row(self, client: int) -> dict[str, Any]:
        graph, place = self.parties[client], self.places[client]
        mine = np.zeros(self.whole.nodes)
        mine[place] = 1.0
        neighbours = self.whole.adjacency @ mine
        touching = self.whole.adjacency.sum(axis=1) @ mine - neighbours @ mine / self._listed
        if self.directed:
            touching += self.whole.adjacency.sum(axis=0) @ mine
        edges = graph.edges.shape[1] // self._listed
        return {
            "client": client,
            "name": graph.name.removeprefix(f"{self.whole.name} "),
            "nodes": graph.nodes,
            "edges": edges,
            "classes": int((self.labels[client] > 0).sum()),
            "labelled": int(graph.train.sum()),
            "anchors": int(self.anchors[place].sum()),
            "clustering": clustering_coefficient(graph),
            "missing_edges": round(touching) - edges,
        }


def jensen_shannon(p: np.ndarray, q: np.ndarray) -> float:
    """Jensen-Shannon distance of two distributions: the root of the divergence, in nats.

    FED-PUB calls its heterogeneity a divergence; its Table 4 fits the root.
    """
    middle = (p + q) / 2

    def relative(a: np.ndarray) -> float:
        there = a > 0
        return float((a[there] * np.log(a[there] / middle[there])).sum())

    return float(np.sqrt((relative(p) + relative(q)) / 2))


def clustering_coefficient(graph: Graph) -> float:
    """Mean over nodes of the share of a node's neighbour pairs that are joined.

    Directions are not looked at.
    """
    a = graph.adjacency
    if not graph.undirected:
        a = sparse.csr_array(a + a.T)
        a.data[:] = 1.0
    degree = np.diff(a.indptr)
    triangles = np.concatenate(
        [
            np.asarray(
                (a[i : i + _ROWS_AT_ONCE] @ a).multiply(a[i : i + _ROWS_AT_ONCE]).sum(axis=1)
            )
            for i in range(0, graph.nodes, _ROWS_AT_ONCE)
        ]
    ).reshape(-1)
    pairs = degree * (degree - 1.0)
    shares = np.divide(triangles, pairs, out=np.zeros(graph.nodes), where=pairs > 0)
    return float(shares.mean())
