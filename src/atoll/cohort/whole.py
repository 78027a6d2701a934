"""Whole graphs as inputs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial

import numpy as np
import torch
from scipy import sparse

from atoll.cohort.inputs import Neighbourhood
from atoll.cohort.k_hop import KHop
from atoll.cohort.packed import Factors, Make, Packed, T, name_of
from atoll.graph import Features, Graph
from atoll.ops.own_rows import Places
from atoll.ops.propagation import (
    inputs_name,
    k_hop_nodes,
    operator_of,
    propagated_entries,
    propagated_features,
    stored,
)

# Own rows are kept apart where they are at most this share of all.
_OWN_BELOW = 0.8


class Whole(Packed):
    """All nodes of the clients' graphs; of one graph, if they all hold the same."""

    @cached_property
    def places(self) -> Places | None:
        if self.k == 1 or self.shared or not all(sparse.issparse(g.x) for g in self.graphs):
            return None
        features = self.graphs[0].features
        columns_K = [g.cached("own features", partial(_own_columns, g)) for g in self.graphs]
        if sum(map(len, columns_K)) > _OWN_BELOW * self.k * features:
            return None
        return Places(columns_K, features)

    def operators(self, name: str) -> list[sparse.csr_array]:
        return [operator_of(g, name) for g in self.graphs]

    def propagated_K(self, propagated: str, hops: int) -> list[Features]:
        return [propagated_features(g, propagated, hops) for g in self.graphs]

    def made_of_propagated(self, propagated: str, hops: int, make: Make[T]) -> list[T]:
        def made(graph: Graph) -> T:
            return make(propagated_features(graph, propagated, hops), self.dtype)

        name = name_of(make, propagated, hops, self.dtype)
        return [g.cached(name, partial(made, g)) for g in self.graphs]

    def _takes_two_products(self, propagated: str, hops: int) -> bool:
        made = self.has_cached(inputs_name(propagated, hops))
        if self.k == 1 and not made and not torch.is_grad_enabled():
            return True  # nobody trains here: a few narrow products rather than a wide one
        return super()._takes_two_products(propagated, hops)

    def _entries(self, name: str) -> tuple[float, float]:
        two = sum(stored(g.x) + operator_of(g, name).nnz for g in self.graphs)
        if two == np.inf:
            return two, two
        return two, sum(propagated_entries(g, name) for g in self.graphs)

    def _two_factors(self, propagated: str, hops: int) -> Factors:
        features = self._factors("", 1, False, "each")
        return features._replace(operators=(self.operator(propagated),) * hops)

    def k_hop(self, reach: int, inside_K: Sequence[np.ndarray]) -> Neighbourhood | None:
        nodes_K = [k_hop_nodes(g, reach, i) for g, i in zip(self.graphs, inside_K, strict=True)]
        if all(len(nodes) == g.nodes for nodes, g in zip(nodes_K, self.graphs, strict=True)):
            return None
        return Neighbourhood(KHop(self.graphs, nodes_K, self.dtype, self), nodes_K)

    def take(self, positions: Sequence[int]) -> Whole:
        return Whole([self.graphs[p] for p in positions], self.dtype)


def _own_columns(graph: Graph) -> np.ndarray:
    """The features that some node of a graph has."""
    return np.unique(sparse.csr_array(graph.x).indices)
