"""Disjoint clients that know which nodes of others theirs are linked to."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import sparse

from atoll.graph import Features, Graph, Holding, View
from atoll.partition.base import Partition, partitions
from atoll.partition.network import entity_rows


@partitions.register("borders")
@dataclass(frozen=True, kw_only=True)
class Borders(Partition):
    """Disjoint clients, each with a bare copy of the nodes that its own are linked to elsewhere.

    ``by`` cuts the graph; no edge is lost. A client has the edges with an end of its own, and of a
    node at another client that one of them leads to it has the id and nothing else: no features
    (all zero), no label, no place in the splits. So a bank knows which accounts elsewhere its
    customers pay, and a citation index which papers its own cite. That is FedGCN's setting; methods
    that match entities (``needs_anchors``) find the copies by their ids.
    """

    by: Literal["metis", "louvain", "random"] = "metis"

    def _cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]:
        pieces = partitions[self.by](clients=self.clients).cut(graph, rng)
        own_K = [entity_rows(graph, piece) for piece in pieces]
        return [graph.held(with_border(graph, own, f"client {k}")) for k, own in enumerate(own_K)]


def with_border(graph: Graph, own: np.ndarray, name: str) -> Holding:
    """What a client holds whose nodes are ``own``: these first, then the copies at its border."""
    inside = np.zeros(graph.nodes, dtype=bool)
    inside[own] = True
    columns = np.flatnonzero(inside[graph.edges].any(axis=0))
    ends = np.unique(graph.edges[:, columns])
    nodes = np.concatenate([own, ends[~inside[ends]]])
    known = inside[nodes]
    view = View(x=_kept_rows(graph.x[nodes], known), known=known, used=known)
    return Holding(name, nodes, columns, view=view)


def _kept_rows(x: Features, kept: np.ndarray) -> Features:
    """Features of which only some rows are not zero."""
    if sparse.issparse(x):
        bare = sparse.csr_array(sparse.diags_array(kept.astype(x.dtype)) @ x)
        bare.eliminate_zeros()
        return bare
    return np.where(kept[:, None], x, np.zeros((), dtype=x.dtype))
