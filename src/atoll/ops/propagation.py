"""What propagation makes of one graph: its operators, and features carried along the edges.

Kept with the graph, for all who hold it.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from scipy import sparse

from atoll.graph import Features, Graph, node_mask
from atoll.ops.features import DENSE_ABOVE
from atoll.ops.sparse import gcn_operator, mean_operator, sum_and_own_operator

# Operators that are symmetric where the graph is.
SYMMETRIC = ("gcn", "sum", "sum and own")
# Nodes by which the entries of P X are guessed.
_SAMPLE = 256
# A neighbourhood is computed by itself where it is at most this share of a graph; with dense
# features, whose products take most of a step, also a larger one.
K_HOP_BELOW, DENSE_K_HOP_BELOW = 0.25, 0.85


def operator_of(graph: Graph, name: str) -> sparse.csr_array:
    return graph.cached(name, lambda: made_operator(graph.weighted_adjacency, name))


def made_operator(adjacency: sparse.csr_array, name: str) -> sparse.csr_array:
    build = {
        "gcn": gcn_operator,
        "mean": mean_operator,
        "sum": sparse.csr_array,
        "sum and own": sum_and_own_operator,
    }[name]
    return build(adjacency)


def stored(x: Features) -> float:
    """The entries of sparse features; dense ones are not to be multiplied by themselves."""
    return float(x.nnz) if sparse.issparse(x) else np.inf  # type: ignore[union-attr]


def propagated_entries(graph: Graph, name: str, nodes: np.ndarray | None = None) -> float:
    """About how many entries ``P X`` has, from those of some of its rows; or its rows at nodes."""
    return sampled_entries(operator_of(graph, name), graph.x, nodes)


def sampled_entries(p: sparse.csr_array, x: Features, nodes: np.ndarray | None) -> float:
    """The same of a matrix and features."""
    count = p.shape[0] if nodes is None else len(nodes)
    rows = np.linspace(0, count - 1, min(count, _SAMPLE)).astype(np.int64)
    some = p[rows if nodes is None else nodes[rows]] @ x
    return float(some.nnz * count / len(rows))


def inputs_name(propagated: str, hops: int) -> str:
    return f"{propagated}^{hops}@x" if propagated else "x"


def propagated_features(graph: Graph, operator: str, hops: int) -> Features:
    def propagate() -> Features:
        x: Features = graph.x
        for _ in range(hops if operator else 0):
            x = operator_of(graph, operator) @ x
        return x

    return graph.cached(inputs_name(operator, hops), propagate)


def propagated_rows(graph: Graph, operator: str, hops: int, nodes: np.ndarray) -> Features:
    """The propagated features of some nodes, without those of the others if these are many."""
    if not operator:
        return graph.x[nodes]
    if 2 * len(nodes) > graph.nodes:
        return propagated_features(graph, operator, hops)[nodes]
    rows = operator_of(graph, operator)[nodes]
    for _ in range(hops - 1):
        rows = rows @ operator_of(graph, operator)
    return rows @ graph.x


def fingerprint(nodes: np.ndarray) -> str:
    """The same for the same nodes."""
    return blake2b(nodes.tobytes(), digest_size=16).hexdigest()


def k_hop_nodes(graph: Graph, reach: int, inside: np.ndarray) -> np.ndarray:
    """The nodes within ``reach`` hops of those ``inside [n]``; all nodes unless those are few."""
    dense = stored(graph.x) > DENSE_ABOVE * graph.nodes * graph.features
    below = DENSE_K_HOP_BELOW if dense else K_HOP_BELOW
    if not inside.any():
        inside = node_mask(np.zeros(1, dtype=np.int64), graph.nodes)  # no client is empty

    def grow() -> np.ndarray:
        reached = inside
        for _ in range(reach):
            if reached.sum() > below * graph.nodes:
                break
            reached = reached.copy()
            reached[graph.adjacency[np.flatnonzero(reached)].indices] = True
        few = reached.sum() <= below * graph.nodes
        return np.flatnonzero(reached) if few else np.arange(graph.nodes)

    return graph.cached(f"{reach} hops of {fingerprint(np.flatnonzero(inside))}", grow)
