"""Sampled neighbourhoods as inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from atoll.cohort.inputs import Inputs
from atoll.graph import Features, Graph
from atoll.ops.features import features_times, pack_features
from atoll.ops.propagation import inputs_name, made_operator
from atoll.ops.sampling import drawn_entries
from atoll.ops.sparse import Sparse, block_diagonal


class Sample(NamedTuple):
    """Some nodes of a graph, with some of the edges that lead to them.

    ``nodes [n]`` are the target nodes first, then those drawn for them, hop by hop; a graph without
    targets is represented by its first node. ``entries [e]`` are places in the arrays of the
    adjacency matrix, ``target`` and ``source [e]`` the ends of these edges as positions in
    ``nodes``, ``share [e]`` how many edges of its target each one stands for.
    """

    graph: Graph
    nodes: np.ndarray
    entries: np.ndarray
    target: np.ndarray
    source: np.ndarray
    share: np.ndarray


def sample_of(
    graph: Graph, targets: np.ndarray, fanout: Sequence[int], stream: np.random.Generator
) -> Sample:
    """The neighbourhood of some nodes as GraphSAGE samples it (Hamilton et al., 2017, Algorithm 2):
    ``fanout[0]`` neighbours of each target, ``fanout[1]`` of each of those, and so on; 0 takes all.

    A node's neighbours are drawn once, without repetition, when the node is first met, so that all
    layers of a model see the same edges at it.
    """
    pointers, indices = graph.weighted_adjacency.indptr, graph.weighted_adjacency.indices
    place = np.full(graph.nodes, -1, dtype=np.int64)
    hops = [targets if len(targets) else np.zeros(1, dtype=np.int64)]
    place[hops[0]] = np.arange(len(hops[0]))
    known, found = len(hops[0]), []
    for most in fanout if len(targets) else ():
        at = hops[-1]
        drawn = drawn_entries(pointers, at, most, stream)
        ends = indices[drawn.entries]
        fresh = np.unique(ends[place[ends] < 0]).astype(np.int64)
        place[fresh] = known + np.arange(len(fresh))
        found.append((drawn.entries, known - len(at) + drawn.row, ends, drawn.share[drawn.row]))
        known += len(fresh)
        hops.append(fresh)
    nothing = np.zeros(0, dtype=np.int64)
    columns = zip(*found, strict=True) if found else [[nothing]] * 4
    entries, target, ends, share = (np.concatenate(column) for column in columns)
    return Sample(graph, np.concatenate(hops), entries, target, place[ends], share)


class Sampled(Inputs):
    """Sampled neighbourhoods of K clients.

    **Which degrees.** Operators keep the weights that the client's whole graph gives them, degrees
    included, and an edge of a node of which m of d were drawn counts d/m times. So with
    ``P = D^-1/2 (A + I) D^-1/2`` of the whole graph a node gets
    ``P_ii h_i + (d_i / m) sum_(j drawn) P_ij h_j``, whose mean over all draws is the
    ``sum_j P_ij h_j`` of full batches; with degrees of the sample instead, nodes of high degree
    would count too much wherever they are met. The mean over neighbours becomes the mean over those
    drawn, as in GraphSAGE. Where all are drawn it is the full batch, number for number. (After an
    activation the mean over draws is no longer exact, for this estimator as for any other.)

    **First layers.** ``exact`` propagated features are those of the whole graph, ``P^k X``,
    computed once and kept: the last hop is then not sampled at all, which costs less and adds no
    noise (as in Chen et al., 2018, and Cluster-GCN's own code). Else they are sampled as well.

    Attention and its like look at the drawn edges as they are.
    """

    def __init__(self, samples: Sequence[Sample], dtype: torch.dtype, exact: bool) -> None:
        super().__init__([len(s.nodes) for s in samples], dtype)
        self.samples = tuple(samples)
        self.exact = exact

    @property
    def graphs(self) -> Sequence[Graph]:
        raise TypeError("edges that were drawn for some nodes are not a graph's")

    @cached_property
    def edges(self) -> Tensor:
        return self.rows_of([np.stack([s.source, s.target]) for s in self.samples])

    def linear(self, weight_K: Tensor, propagated: str = "", hops: int = 1) -> Tensor:
        if propagated and not self.exact:
            h = self.linear(weight_K)
            for _ in range(hops):
                h = self.operator(propagated) @ h
            return h
        x = self.cached(inputs_name(propagated, hops), lambda: self._features(propagated, hops))
        return features_times(x, weight_K, self.sizes)

    def _features(self, propagated: str, hops: int) -> Sparse | Tensor:
        x_K = [_kept_features(s.graph, propagated, hops, self.dtype)[s.nodes] for s in self.samples]
        return pack_features(x_K, self.dtype)

    def operator(self, name: str) -> Sparse:
        def pack() -> Sparse:
            return Sparse(block_diagonal([_matrix(s, name) for s in self.samples]), self.dtype)

        return self.cached(name, pack)

    def operator_at(self, name: str, rows: Tensor) -> Sparse:
        return self.operator(name).at(rows)


def _matrix(sample: Sample, name: str) -> sparse.csr_array:
    """A propagation matrix of the whole graph at the drawn edges, each for those it stands for."""
    graph, nodes, n = sample.graph, sample.nodes, len(sample.nodes)
    values = graph.weighted_adjacency.data[sample.entries] * sample.share
    target, source = sample.target, sample.source
    degree = graph.cached("weighted degrees", lambda: graph.weighted_adjacency.sum(axis=1))[nodes]
    if name == "gcn":
        scale = 1.0 / np.sqrt(degree + 1.0)
        values = np.concatenate([values * scale[target] * scale[source], scale * scale])
        loops = np.arange(n)
        target, source = np.concatenate([target, loops]), np.concatenate([source, loops])
    elif name == "sum and own":
        values = np.concatenate([values, np.ones(n)])
        loops = np.arange(n)
        target, source = np.concatenate([target, loops]), np.concatenate([source, loops])
    elif name == "mean":
        values = values / degree[target]
    return sparse.csr_array((values, (target, source)), shape=(n, n))


def _kept_features(graph: Graph, propagated: str, hops: int, dtype: torch.dtype) -> Features:
    """A graph's features, propagated, in the type of the federation; kept with it."""
    if not propagated:
        return graph.x
    kind = np.float32 if dtype == torch.float32 else np.float64

    def propagate() -> Features:
        # Once it has been used here, nothing needs the whole matrix until the next scores.
        x, operator = graph.x, made_operator(graph.weighted_adjacency, propagated)
        for _ in range(hops):
            x = operator @ x
        return x.astype(kind, copy=False)

    return graph.cached(f"{inputs_name(propagated, hops)} in {kind.__name__}", propagate)


def training_nodes(graph: Graph, nodes: np.ndarray) -> Graph:
    """What tasks know of some training nodes; their edges are the inputs' business."""
    nobody = np.zeros(len(nodes), dtype=bool)
    return replace(
        graph,
        x=graph.x[nodes],
        edges=np.zeros((2, 0), dtype=np.int64),
        weights=None,
        y=graph.y[nodes],
        train=~nobody,
        val=nobody,
        test=nobody,
        ids=graph.ids[nodes],
        holdings=(),
        anchors=np.zeros(0, dtype=np.int64),
        probes=(),
    )
