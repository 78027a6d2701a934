"""Clusters within one client's graph."""

from __future__ import annotations

import numpy as np

from atoll.errors import AtollError
from atoll.graph import Graph, nodes_of
from atoll.partition.metis import metis_owner


def clusters_of(graph: Graph, clusters: int, seed: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """The cluster of each node ``[n]``, and the nodes of each cluster.

    They follow from the edges alone and are computed once.
    """
    if clusters > graph.nodes:
        raise AtollError(
            f"{graph.name} has {graph.nodes} nodes and can't be divided into {clusters} clusters; "
            f"lower method.clusters."
        )

    def divide() -> tuple[np.ndarray, list[np.ndarray]]:
        owner = np.zeros(graph.nodes, dtype=np.int64)
        if clusters > 1:
            owner = metis_owner(graph, clusters, seed)
        return owner, nodes_of(owner, clusters)

    return graph.cached(f"clusters {clusters} {seed}", divide)
