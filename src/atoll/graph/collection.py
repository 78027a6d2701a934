"""Many small graphs kept as one without edges between them."""

from __future__ import annotations

import numpy as np

from atoll.errors import AtollError


def first_nodes(graph_of: np.ndarray) -> np.ndarray:
    """The first node of each small graph ``[g]``, given which one each node belongs to ``[n]``."""
    return np.flatnonzero(_begins(graph_of))


def renumbered_from_0(graph_of: np.ndarray) -> np.ndarray:
    """The same small graphs, without gaps in their numbers."""
    return np.cumsum(_begins(graph_of)) - 1


def nodes_of_graphs(graph_of: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The nodes of some small graphs, in the order in which these are given."""
    start = np.append(first_nodes(graph_of), len(graph_of))
    size = np.diff(start)[chosen]
    before = np.cumsum(size) - size
    nodes: np.ndarray = np.repeat(start[chosen] - before, size) + np.arange(size.sum())
    return nodes


def check_collection(name: str, graph_of: np.ndarray, y: np.ndarray, edges: np.ndarray) -> None:
    """One sentence if nodes do not follow each other graph by graph, or labels stand elsewhere."""
    n = len(y)
    if len(graph_of) != n:
        raise AtollError(
            f"{name}: 'graph_of' has {len(graph_of)} entries for {n} nodes; give one per node."
        )
    steps = np.diff(graph_of)
    if n and (graph_of[0] != 0 or not np.isin(steps, (0, 1)).all()):
        raise AtollError(
            f"{name}: 'graph_of' must count graphs from 0, all nodes of one before those of the "
            f"next."
        )
    if edges.size and not np.array_equal(graph_of[edges[0]], graph_of[edges[1]]):
        raise AtollError(f"{name}: an edge joins nodes of two graphs; leave it out.")
    labelled = y >= 0
    labelled[first_nodes(graph_of)] = False
    if labelled.any():
        raise AtollError(
            f"{name}: node {int(np.flatnonzero(labelled)[0])} has a label and is not the first of "
            f"its graph; a graph's label stands at its first node."
        )


def _begins(graph_of: np.ndarray) -> np.ndarray:
    """Whether a node is of another graph than the one before it ``[n]``."""
    begins = np.ones(len(graph_of), dtype=bool)
    begins[1:] = graph_of[1:] != graph_of[:-1]
    return begins
