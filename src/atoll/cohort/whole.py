"""Whole graphs as inputs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from atoll.cohort.inputs import Neighbourhood
from atoll.cohort.k_hop import KHop
from atoll.cohort.packed import Make, Packed, T, name_of
from atoll.graph import Features, Graph
from atoll.ops.propagation import (
    inputs_name,
    k_hop_nodes,
    operator_of,
    propagated_entries,
    propagated_features,
    stored,
)


class Whole(Packed):
    """All nodes of the clients' graphs; of one graph, if they all hold the same."""

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

    def _two_products(self, weight_K: Tensor, propagated: str, hops: int) -> Tensor:
        h = self.linear(weight_K)
        for _ in range(hops):
            h = self.operator(propagated) @ h
        return h

    def k_hop(self, reach: int, inside_K: Sequence[np.ndarray]) -> Neighbourhood | None:
        nodes_K = [k_hop_nodes(g, reach, i) for g, i in zip(self.graphs, inside_K, strict=True)]
        if all(len(nodes) == g.nodes for nodes, g in zip(nodes_K, self.graphs, strict=True)):
            return None
        return Neighbourhood(KHop(self.graphs, nodes_K, self.dtype), nodes_K)

    def take(self, positions: Sequence[int]) -> Whole:
        return Whole([self.graphs[p] for p in positions], self.dtype)
