"""A graph cut into disjoint parts in one pass over its edges, however many parts there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace

import numpy as np

from atoll.graph.collection import renumbered_from_0
from atoll.graph.features import Features
from atoll.graph.graph import Graph
from atoll.graph.holding import Holding

# A third array of all edges would be the largest thing in memory next to the features.
_EDGES_AT_ONCE = 2**18


def disjoint_parts(
    graph: Graph,
    nodes_K: Sequence[np.ndarray],
    names: Sequence[str],
    with_holdings: bool = True,
) -> list[Graph] | None:
    """What ``graph.subgraph`` makes of each client's nodes; None where two clients share a node.

    Arrays of parts are views of one array each, in the order of clients: of the graph's own where
    its nodes are in that order.
    """
    size_K = np.array([len(nodes) for nodes in nodes_K], dtype=np.int64)
    nodes = np.concatenate(nodes_K)
    if len(nodes) > graph.nodes:
        return None
    owner = np.full(graph.nodes, -1, dtype=np.int32)
    owner[nodes] = np.repeat(np.arange(len(nodes_K), dtype=np.int32), size_K)
    if np.count_nonzero(owner >= 0) != len(nodes):
        return None
    return _Cut(graph, nodes, size_K, owner).parts(names, with_holdings)


class _Cut:
    def __init__(
        self, graph: Graph, nodes: np.ndarray, size_K: np.ndarray, owner: np.ndarray
    ) -> None:
        self.graph, self.nodes, self.owner, self.k = graph, nodes, owner, len(size_K)
        self.end_K = np.cumsum(size_K)
        self.start_K = self.end_K - size_K
        self.place = np.full(graph.nodes, -1, dtype=np.int64)
        self.place[nodes] = np.arange(len(nodes)) - np.repeat(self.start_K, size_K)
        source, target = graph.edges
        self.edge_owner = owner[source]
        self.edge_owner[self.edge_owner != owner[target]] = -1
        self.columns = np.flatnonzero(self.edge_owner >= 0)
        key = self.edge_owner[self.columns]
        if (key[1:] < key[:-1]).any():
            self.columns = self.columns[np.argsort(key, kind="stable")]
        self.edge_end_K = np.cumsum(np.bincount(key, minlength=self.k))

    def parts(self, names: Sequence[str], with_holdings: bool) -> list[Graph]:
        graph, columns = self.graph, self.columns
        x, y, train, val, test, ids = (
            self._in_order(a)
            for a in (graph.x, graph.y, graph.train, graph.val, graph.test, graph.ids)
        )
        edges = self._edges()
        weights = None if graph.weights is None else graph.weights[columns]
        graph_of = None if graph.graph_of is None else self._in_order(graph.graph_of)
        holdings_K = self._holdings() if with_holdings and graph.holdings else None
        # What all parts have in common, and what they have not checked again.
        common = {f.name: getattr(graph, f.name) for f in fields(graph)}
        common |= {"anchors": np.zeros(0, dtype=np.int64), "probes": (), "holdings": ()}
        made = []
        for k, (a, b, first, last) in enumerate(self._bounds()):
            part = object.__new__(Graph)
            vars(part).update(
                common,
                x=x[a:b],
                y=y[a:b],
                train=train[a:b],
                val=val[a:b],
                test=test[a:b],
                ids=ids[a:b],
                edges=edges[:, first:last],
                name=names[k],
            )
            if weights is not None:
                vars(part)["weights"] = weights[first:last]
            if graph_of is not None:
                vars(part)["graph_of"] = renumbered_from_0(graph_of[a:b])
            if holdings_K is not None:
                vars(part)["holdings"] = tuple(holdings_K[k])
            if graph.derived.get("undirected"):
                part.derived["undirected"] = True
            made.append(part)
        return made

    def _edges(self) -> np.ndarray:
        """The edges within parts ``[2, e]``, in the parts' own numbers."""
        edges = np.empty((2, len(self.columns)), dtype=np.int64)
        for first in range(0, len(self.columns), _EDGES_AT_ONCE):
            some = slice(first, first + _EDGES_AT_ONCE)
            edges[:, some] = self.place[self.graph.edges[:, self.columns[some]]]
        return edges

    def _bounds(self) -> Iterator[tuple[int, int, int, int]]:
        """Where each client's nodes and edges begin and end."""
        ends, edge_ends = self.end_K.tolist(), self.edge_end_K.tolist()
        return zip([0, *ends[:-1]], ends, [0, *edge_ends[:-1]], edge_ends, strict=True)

    def _in_order(self, array: Features) -> Features:
        """The entries of all nodes, client by client; no copy where they are so already."""
        first = int(self.nodes[0]) if len(self.nodes) else 0
        if np.array_equal(self.nodes, np.arange(first, first + len(self.nodes))):
            return array[first : first + len(self.nodes)]
        return array[self.nodes]

    def _holdings(self) -> list[list[Holding]]:
        """The holdings within each part, in its own numbers."""
        edge_place = np.full(self.graph.edges.shape[1], -1, dtype=np.int64)
        counts = np.diff(self.edge_end_K, prepend=0)
        edge_place[self.columns] = np.arange(len(self.columns)) - np.repeat(
            self.edge_end_K - counts, counts
        )
        found: list[list[Holding]] = [[] for _ in range(self.k)]
        for holding in self.graph.holdings:
            own = self.owner[holding.nodes]
            edge_own = None if holding.edges is None else self.edge_owner[holding.edges]
            for k in np.unique(own[own >= 0]).tolist():
                mine, edges, kept = own == k, None, None
                if edge_own is not None and holding.edges is not None:
                    kept = edge_own == k
                    edges = edge_place[holding.edges[kept]]
                nodes = self.place[holding.nodes[mine]]
                view = holding.view and holding.view.of(mine, kept)
                found[k].append(replace(holding, nodes=nodes, edges=edges, view=view))
        return found
