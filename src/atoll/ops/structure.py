"""What a node's place in a graph looks like, whatever its features are."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from atoll.graph import Graph

# Nodes whose walks are followed at once, so that a large graph's powers are never held whole.
_AT_ONCE = 4096


def structure_of(graph: Graph, walks: int, degrees: int) -> np.ndarray:
    """FedStar's structure embedding ``[n, walks + degrees]``.

    Entry k of the first part is the chance that a random walk from the node is back after k steps,
    ``diag((A D^-1)^k)`` for k = 1 to ``walks``; the second is the degree as a one-hot row, from 1
    or less to ``degrees`` or more. Weights of edges are not looked at.
    """

    def build() -> np.ndarray:
        return np.concatenate([returns(graph, walks), one_hot_degrees(graph, degrees)], axis=1)

    return graph.cached(f"structure {walks} {degrees}", build)


def returns(graph: Graph, walks: int) -> np.ndarray:
    """The chances of being back after 1 to ``walks`` steps ``[n, walks]``."""
    a, n = graph.adjacency, graph.nodes
    degree = a.sum(axis=0)
    scale = np.divide(1.0, degree, out=np.zeros(n), where=degree > 0)
    m = sparse.csr_array(a @ sparse.diags_array(scale))
    found = np.zeros((n, walks))
    for start in range(0, n, _AT_ONCE):
        nodes = np.arange(start, min(start + _AT_ONCE, n))
        power = m[:, nodes]
        for k in range(walks):
            found[nodes, k] = power.diagonal(-start)[: len(nodes)]
            if k + 1 < walks:
                power = m @ power
    return found


def one_hot_degrees(graph: Graph, degrees: int) -> np.ndarray:
    """Degrees from 1 to ``degrees``, others as the nearest of these ``[n, degrees]``."""
    degree = np.diff(graph.adjacency.indptr).clip(1, degrees)
    rows: np.ndarray = (degree[:, None] == np.arange(1, degrees + 1)).astype(np.float64)
    return rows
