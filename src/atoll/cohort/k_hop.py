"""Some nodes of each graph as inputs, where a loss depends on no others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from scipy import sparse

from atoll.cohort.packed import Factors, Make, Packed, T, name_of
from atoll.graph import Features, Graph
from atoll.ops.features import pack_features
from atoll.ops.own_rows import Places
from atoll.ops.propagation import (
    fingerprint,
    inputs_name,
    operator_of,
    propagated_entries,
    propagated_rows,
    stored,
)
from atoll.ops.sparse import Sparse, block_diagonal


class KHop(Packed):
    """Some nodes of each client, with the operators and propagated features of the whole graph."""

    def __init__(
        self,
        whole: Sequence[Graph],
        nodes_K: Sequence[np.ndarray],
        dtype: torch.dtype,
        cut_from: Packed | None = None,
    ) -> None:
        self._cut_from = cut_from
        # Named by their nodes, parts of a graph are kept with it: other cohorts need them too.
        self._parts = [
            (graph, nodes, fingerprint(nodes)) for graph, nodes in zip(whole, nodes_K, strict=True)
        ]
        super().__init__([part_of(graph, nodes) for graph, nodes, _ in self._parts], dtype)

    @property
    def places(self) -> Places | None:
        return None if self._cut_from is None else self._cut_from.places

    def operators(self, name: str) -> list[sparse.csr_array]:
        def cut(graph: Graph, nodes: np.ndarray) -> sparse.csr_array:
            return operator_of(graph, name)[nodes][:, nodes]

        return self._kept(name, cut)

    def propagated_K(self, propagated: str, hops: int) -> list[Features]:
        def cut(graph: Graph, nodes: np.ndarray) -> Features:
            return propagated_rows(graph, propagated, hops, nodes)

        return self._kept(inputs_name(propagated, hops), cut)

    def made_of_propagated(self, propagated: str, hops: int, make: Make[T]) -> list[T]:
        def made(graph: Graph, nodes: np.ndarray) -> T:
            return make(propagated_rows(graph, propagated, hops, nodes), self.dtype)

        return self._kept(name_of(make, propagated, hops, self.dtype), made)

    def _entries(self, name: str) -> tuple[float, float]:
        if any(stored(g.x) == np.inf for g, _, _ in self._parts):
            return np.inf, np.inf
        two = sum(op.nnz + stored(x) for op, x in self._around(name))
        return two, sum(propagated_entries(g, name, nodes) for g, nodes, _ in self._parts)

    def _two_factors(self, propagated: str, hops: int) -> Factors:
        """With the features of the nodes around these ones as well."""
        operator_K, x_K = zip(*self._around(propagated), strict=True)
        operator = Sparse(block_diagonal(list(operator_K)), self.dtype)
        return Factors(pack_features(x_K, self.dtype), (operator,), [x.shape[0] for x in x_K])

    def _around(self, name: str) -> list[tuple[sparse.csr_array, Features]]:
        """Each client's rows of an operator, and the features of the nodes that they refer to."""

        def cut(graph: Graph, nodes: np.ndarray) -> tuple[sparse.csr_array, Features]:
            rows = operator_of(graph, name)[nodes]
            around = np.unique(rows.indices)
            return rows[:, around], graph.x[around]

        return self._kept(f"{name} and what is around", cut)

    def take(self, positions: Sequence[int]) -> KHop:
        graphs, nodes_K, _ = zip(*(self._parts[p] for p in positions), strict=True)
        return KHop(graphs, nodes_K, self.dtype)

    def _kept(self, what: str, make: Callable[[Graph, np.ndarray], T]) -> list[T]:
        return [
            g.cached(f"{what} at {at}", partial(make, g, nodes)) for g, nodes, at in self._parts
        ]


def part_of(graph: Graph, nodes: np.ndarray) -> Graph:
    """The graph induced on some nodes, kept with the whole one."""
    return graph.cached(f"graph at {fingerprint(nodes)}", lambda: graph.subgraph(nodes))
