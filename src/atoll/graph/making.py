"""Graphs from plain arrays, their largest component, and masks of nodes."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from atoll.graph.edges import undirected_edges
from atoll.graph.features import Features
from atoll.graph.graph import Graph


def make_graph(
    x: Features,
    edges: np.ndarray,
    y: np.ndarray,
    *,
    classes: int | None = None,
    ids: np.ndarray | None = None,
    name: str = "graph",
) -> Graph:
    """A graph without splits: edges made undirected, loops and duplicates dropped."""
    n = x.shape[0]
    nothing = np.zeros(n, dtype=bool)
    return Graph(
        x=x,
        edges=undirected_edges(edges, n),
        y=np.asarray(y, dtype=np.int64),
        classes=int(y.max()) + 1 if classes is None else classes,
        train=nothing,
        val=nothing,
        test=nothing,
        ids=np.arange(n) if ids is None else ids,
        name=name,
    )


def largest_component(graph: Graph) -> Graph:
    """The induced graph on the largest connected component."""
    count, label = sparse.csgraph.connected_components(graph.adjacency, directed=False)
    if count <= 1:
        return graph
    return graph.subgraph(np.flatnonzero(label == np.bincount(label).argmax()))


def node_mask(chosen: np.ndarray, nodes: int) -> np.ndarray:
    """True for the chosen nodes ``[n]``."""
    mask = np.zeros(nodes, dtype=bool)
    mask[chosen] = True
    return mask
