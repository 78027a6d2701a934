"""A few nodes of each client, where a loss looks at no others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from scipy import sparse
from torch import Tensor

from atoll.cohort import Cohort, Made, T, name_of
from atoll.graph import Features, Graph
from atoll.ops.features import features_times, pack_features
from atoll.ops.propagation import (
    inputs_name,
    named,
    operator_of,
    propagated_entries,
    propagated_rows,
    stored,
)
from atoll.ops.sparse import Sparse, block_diagonal


class Near(Cohort):
    """Some nodes of each client, seen with the operators and propagated features of the whole."""

    def __init__(self, whole: Cohort, nodes_K: Sequence[np.ndarray]) -> None:
        # Named by their nodes, pieces of a graph are kept with it: other cohorts want them too.
        names = [named(nodes) for nodes in nodes_K]
        self._whole = list(zip(whole.graphs, nodes_K, names, strict=True))
        parts = self._kept("graph", lambda g, nodes: g.subgraph(nodes))
        labelled = [
            part.relabelled(
                y=g.y[nodes],
                train=g.train[nodes],
                val=g.val[nodes],
                test=g.test[nodes],
                name=g.name,
            )
            for part, (g, nodes, _) in zip(parts, self._whole, strict=True)
        ]
        super().__init__(labelled, whole.clients, whole.dtype)

    def near(self, reach: int | None, *splits: str) -> Cohort:
        return self

    def _apart(self, propagated: str, hops: int) -> bool:
        return self.work_apart(propagated, hops) < np.inf

    def _entries(self, name: str) -> tuple[float, float]:
        if any(stored(g.x) == np.inf for g, _, _ in self._whole):
            return np.inf, np.inf
        apart = sum(op.nnz + stored(x) for op, x in self._around(name))
        return apart, sum(propagated_entries(g, name, nodes) for g, nodes, _ in self._whole)

    def _propagated_last(self, weight_K: Tensor, propagated: str, hops: int) -> Tensor:
        """From the features of the nodes around these ones as well."""
        own, around = f"{propagated} around", f"x around by {propagated}"
        if own not in self._packed:
            operator_K, x_K = zip(*self._around(propagated), strict=True)
            self._packed[own] = Sparse(block_diagonal(list(operator_K)), self.dtype)
            self._packed[around] = pack_features(x_K, self.dtype)
        operator = self._packed[own]
        assert isinstance(operator, Sparse)
        sizes = [x.shape[0] for _, x in self._around(propagated)]
        return operator @ features_times(self._packed[around], weight_K, sizes)

    def _around(self, name: str) -> list[tuple[sparse.csr_array, Features]]:
        """Each client's rows of an operator, and the features of the nodes that they look at."""

        def cut(graph: Graph, nodes: np.ndarray) -> tuple[sparse.csr_array, Features]:
            rows = operator_of(graph, name)[nodes]
            around = np.unique(rows.indices)
            return rows[:, around], graph.x[around]

        return self._kept(f"{name} and what is around", cut)

    def operators(self, name: str) -> list[sparse.csr_array]:
        def cut(graph: Graph, nodes: np.ndarray) -> sparse.csr_array:
            return operator_of(graph, name)[nodes][:, nodes]

        return self._kept(name, cut)

    def inputs(self, propagated: str, hops: int) -> list[Features]:
        def cut(graph: Graph, nodes: np.ndarray) -> Features:
            return propagated_rows(graph, propagated, hops, nodes)

        inputs = self._kept(inputs_name(propagated, hops), cut)
        return inputs[:1] if self.one_graph else inputs

    def kept_inputs(self, propagated: str, hops: int, made: Made[T]) -> list[T]:
        def make(graph: Graph, nodes: np.ndarray) -> T:
            return made(propagated_rows(graph, propagated, hops, nodes), self.dtype)

        return self._kept(name_of(made, propagated, hops, self.dtype), make)

    def _kept(self, what: str, make: Callable[[Graph, np.ndarray], T]) -> list[T]:
        return [
            g.cached(f"{what} at {at}", partial(make, g, nodes)) for g, nodes, at in self._whole
        ]
