"""What one client knows of the neighbours of nodes that others hold too."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from atoll.graph import Features, Graph


class Counted(NamedTuple):
    """Of each anchor of a client ``[a]``: the neighbours that only this client knows the features
    of, the weight of the edges to these, and that of edges to neighbours with several holders."""

    number: np.ndarray
    weight: np.ndarray
    shared: np.ndarray


class Neighbours:
    """One client's nodes, told apart by who has their features.

    ``elsewhere [a]`` says how many other clients have the features of each anchor. A node whose
    features are here alone is ``only_here``, every node that is no anchor among them; a copy
    without features of a node that is complete elsewhere is counted there.
    """

    def __init__(self, graph: Graph, elsewhere: np.ndarray) -> None:
        self.graph = graph
        self.anchors = graph.anchors
        here = has_features(graph)
        self.only_here = np.ones(graph.nodes, dtype=bool)
        self.only_here[self.anchors] = here & (elsewhere == 0)
        # At several clients, or at none.
        self._shared = np.zeros(graph.nodes, dtype=bool)
        self._shared[self.anchors] = here == (elsewhere > 0)

    def count(self) -> Counted:
        near = self.graph.adjacency[self.anchors]
        weighted = self.graph.weighted_adjacency[self.anchors]
        only_here = self.only_here.astype(np.float64)
        number = (near @ only_here).astype(np.int64)
        return Counted(number, weighted @ only_here, weighted @ self._shared.astype(np.float64))

    def sums(self, degree: np.ndarray, with_itself: bool) -> sparse.csr_array | np.ndarray:
        """``sum_w A_vw x_w / sqrt(d_w)`` over the neighbours w that are only here ``[a, f]``.

        ``degree [a]`` are the anchors' complete degrees. ``with_itself`` adds the anchor's own
        term, if its features are only here.
        """
        matrix = self.graph.weighted_adjacency[self.anchors]
        if with_itself:
            own = np.arange(len(self.anchors))
            loops = (np.ones(len(own)), (own, self.anchors))
            matrix = matrix + sparse.csr_array(loops, shape=matrix.shape)
        scale = self.only_here / np.sqrt(complete_degrees(self.graph, degree))
        return sparse.csr_array(matrix @ sparse.diags_array(scale)) @ self.graph.x


def has_features(graph: Graph) -> np.ndarray:
    """Whether an anchor's features are known here: a row of zeros stands for none ``[a]``."""
    size = abs(graph.x[graph.anchors]).sum(axis=1)
    return np.asarray(size).reshape(-1) > 0


def local_degrees(graph: Graph) -> np.ndarray:
    """Each node's degree here, its loop counted ``[n]``."""
    degree: np.ndarray = 1.0 + graph.weighted_adjacency.sum(axis=1)
    return degree


def complete_degrees(graph: Graph, degree: np.ndarray) -> np.ndarray:
    """Each node's degree ``[n]`` given those of anchors ``[a]``: other nodes are only here."""
    complete = local_degrees(graph)
    complete[graph.anchors] = degree
    return complete


def operator(graph: Graph, degree: np.ndarray) -> sparse.csr_array:
    """``D^-1/2 (A + I) D^-1/2`` with the complete degrees."""
    scale = sparse.diags_array(1.0 / np.sqrt(complete_degrees(graph, degree)))
    loops = sparse.eye_array(graph.nodes, format="csr")
    return sparse.csr_array(scale @ (graph.weighted_adjacency + loops) @ scale)


def completed_features(graph: Graph, degree: np.ndarray, further: np.ndarray) -> Features:
    """``P X``, where the sum at an anchor has ``further [a, f]`` from other clients."""
    scaled = further / np.sqrt(degree)[:, None]
    place = sparse.csr_array(
        (np.ones(len(scaled)), (graph.anchors, np.arange(len(scaled)))),
        shape=(graph.nodes, len(scaled)),
    )
    here = operator(graph, degree) @ graph.x
    if sparse.issparse(here):
        return sparse.csr_array(here + place @ sparse.csr_array(scaled))
    return np.asarray(here + place @ scaled)
