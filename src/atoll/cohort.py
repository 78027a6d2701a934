"""The data of K clients, packed so that one operation serves them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TypeAlias, TypeVar

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from atoll.graph import Features, Graph
from atoll.leaves import Ragged
from atoll.ops.features import DENSE_ABOVE, features_times, pack_features, same_features_times
from atoll.ops.propagation import (
    ball,
    inputs_name,
    operator_of,
    propagated_entries,
    propagated_features,
    stored,
)
from atoll.ops.sparse import Sparse, block_diagonal

T = TypeVar("T")
Made: TypeAlias = Callable[[Features, torch.dtype], T]

# P X is not made where the products with X and then with P take less than this share of its cost.
_APART_BELOW = 0.6

SPLITS = ("train", "val", "test")


class Cohort:
    """K graphs side by side: rows ``ptr[k]:ptr[k + 1]`` belong to the client at position k.

    ``clients`` are the parties' numbers in the federation, which key their randomness;
    positions in a cohort mean nothing.
    """

    def __init__(
        self,
        graphs: Sequence[Graph],
        clients: Sequence[int] | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if not graphs:
            raise ValueError("a cohort has at least one client")
        self.graphs = tuple(graphs)
        self.clients = tuple(range(len(graphs)) if clients is None else clients)
        self.dtype = dtype
        self.k = len(self.graphs)
        self.sizes = tuple(g.nodes for g in self.graphs)
        self.features = self.graphs[0].features
        self.classes = self.graphs[0].classes
        # What follows from features and edges alone.
        self._packed: dict[str, Sparse | Tensor] = {}
        # What depends on splits as well.
        self._rows: dict[str, Tensor] = {}
        self._derived: dict[str, object] = {}

    def take(self, positions: Sequence[int]) -> Cohort:
        graphs = [self.graphs[p] for p in positions]
        return Cohort(graphs, [self.clients[p] for p in positions], self.dtype)

    def with_graphs(self, graphs: Sequence[Graph]) -> Cohort:
        return Cohort(graphs, self.clients, self.dtype)

    def relabelled(self, graphs: Sequence[Graph]) -> Cohort:
        """The same features and edges with other labels and splits; what is packed is shared."""
        other = self.with_graphs(graphs)
        other._packed = self._packed
        return other

    def cached(self, key: str, build: Callable[[], T]) -> T:
        """What is derived from the graphs, which never change, is computed once."""
        if key not in self._derived:
            self._derived[key] = build()
        return self._derived[key]  # type: ignore[return-value]

    @cached_property
    def one_graph(self) -> bool:
        """Whether several clients hold the same features and edges, which are then kept once."""
        first = self.graphs[0]
        return self.k > 1 and all(g.x is first.x and g.edges is first.edges for g in self.graphs)

    @cached_property
    def first(self) -> Cohort:
        """The first client alone."""
        return self.take([0])

    def near(self, reach: int | None, *splits: str) -> Cohort:
        """Only the nodes within ``reach`` hops of some splits', for clients where those are few.

        Operators and propagated features are the whole graph's, restricted, so that a model that
        looks ``reach`` hops beyond the propagated features computes the same for the nodes of the
        splits. None is a reach that is not known: everything.
        """
        if reach is None:
            return self

        from atoll.near import Near  # a kind of cohort itself

        def restrict() -> Cohort:
            nodes_K = [ball(g, reach, splits) for g in self.graphs]
            few = any(len(nodes) < g.nodes for nodes, g in zip(nodes_K, self.graphs, strict=True))
            return Near(self, nodes_K) if few else self

        return self.cached(f"{reach} hops of {splits}", restrict)

    @cached_property
    def batch(self) -> Tensor:
        """The position of each node's client ``[N]``."""
        return torch.repeat_interleave(torch.arange(self.k), torch.tensor(self.sizes))

    @cached_property
    def y(self) -> Tensor:
        return self._nodes(lambda g: g.y)

    @cached_property
    def labelled(self) -> Tensor:
        """How many nodes each client may train on ``[K]``; links, where they are the task."""
        counts = [g.probes[0][0].shape[1] if g.probes else g.train.sum() for g in self.graphs]
        return torch.tensor([int(count) for count in counts], dtype=torch.float64)

    def rows(self, split: str) -> Tensor:
        """The nodes of a split, as row numbers."""
        if split not in self._rows:
            mask = self._nodes(lambda g: np.asarray(getattr(g, split)))
            self._rows[split] = mask.nonzero().flatten()
        return self._rows[split]

    def probes(self, split: str) -> tuple[Tensor, Tensor]:
        """Pairs of nodes of a split, linked ones and others, ``[2, m]`` each in row numbers."""
        linked, others = f"linked:{split}", f"others:{split}"
        if linked not in self._packed:
            pairs = [g.probes[SPLITS.index(split)] for g in self.graphs]
            self._packed[linked] = self._rows_of([p for p, _ in pairs])
            self._packed[others] = self._rows_of([n for _, n in pairs])
        first, second = self._packed[linked], self._packed[others]
        assert isinstance(first, Tensor)
        assert isinstance(second, Tensor)
        return first, second

    def _rows_of(self, nodes_K: Sequence[np.ndarray]) -> Tensor:
        """The clients' own node numbers ``[..., m]``, as row numbers of the cohort."""
        shift = np.cumsum([0, *self.sizes[:-1]])
        return torch.from_numpy(
            np.concatenate([n + s for n, s in zip(nodes_K, shift, strict=True)], axis=-1)
        )

    def operator(self, name: str) -> Sparse:
        """A block-diagonal propagation matrix ``[N, N]``: ``gcn`` or ``mean``."""
        if name not in self._packed:
            blocks = self.operators(name)
            symmetric = name == "gcn" and all(g.undirected for g in self.graphs)
            self._packed[name] = Sparse(block_diagonal(blocks), self.dtype, symmetric)
        matrix = self._packed[name]
        assert isinstance(matrix, Sparse)
        return matrix

    @cached_property
    def edges(self) -> Tensor:
        """All clients' edges ``[2, E]`` in the cohort's row numbers."""
        return self._rows_of([g.edges for g in self.graphs])

    @cached_property
    def anchors(self) -> Ragged:
        """Each client's anchors, in the cohort's row numbers."""
        rows = [g.anchors for g in self.graphs]
        return Ragged(self._rows_of(rows), tuple(len(r) for r in rows))

    def linear(self, weight_K: Tensor, propagated: str = "", hops: int = 1) -> Tensor:
        """Features times weights, ``[K, f, h] -> [N, h]``.

        ``propagated`` names an operator P: the features are then ``P^hops X``, which is constant
        while the graph is, so it is computed once and the first layer costs one product. Where
        P X has many times the entries of X, ``P (X W)`` is computed instead.
        """
        if propagated and self._apart(propagated, hops):
            return self._propagated_last(weight_K, propagated, hops)
        key = inputs_name(propagated, hops)
        if key not in self._packed:
            self._packed[key] = pack_features(self.inputs(propagated, hops), self.dtype)
        packed = self._packed[key]
        if self.one_graph:
            return same_features_times(packed, weight_K)
        return features_times(packed, weight_K, self.sizes)

    def _apart(self, propagated: str, hops: int) -> bool:
        """Whether to multiply with X and then with an operator, rather than with both at once."""
        made = inputs_name(propagated, hops) in self._packed
        if self.k == 1 and not made and not torch.is_grad_enabled():
            return True  # nobody trains here: a few narrow products rather than a wide one
        return self.work_apart(propagated, hops) < np.inf

    def work_apart(self, propagated: str, hops: int) -> float:
        """The entries of X and of an operator where they are far fewer than those of both at once.

        Infinite elsewhere.
        """
        if hops != 1:
            return np.inf

        def count() -> float:
            apart, together = self._entries(propagated)
            together = min(DENSE_ABOVE * sum(self.sizes) * self.features, together)
            return apart if apart < _APART_BELOW * together else np.inf

        return self.cached(f"work of {propagated} apart", count)

    def _entries(self, name: str) -> tuple[float, float]:
        """Of the features and an operator; and, about, of their product."""
        apart = sum(stored(g.x) + operator_of(g, name).nnz for g in self.graphs)
        if apart == np.inf:
            return apart, apart
        return apart, sum(propagated_entries(g, name) for g in self.graphs)

    def _propagated_last(self, weight_K: Tensor, propagated: str, hops: int) -> Tensor:
        h = Cohort.linear(self, weight_K)  # not what a kind of cohort makes of it
        for _ in range(hops):
            h = self.operator(propagated) @ h
        return h

    def operators(self, name: str) -> list[sparse.csr_array]:
        """Each client's propagation matrix."""
        return [operator_of(g, name) for g in self.graphs]

    def inputs(self, propagated: str, hops: int) -> list[Features]:
        """Each client's propagated features, or the features they all have."""
        graphs = self.graphs[:1] if self.one_graph else self.graphs
        return [propagated_features(g, propagated, hops) for g in graphs]

    def kept_inputs(self, propagated: str, hops: int, made: Made[T]) -> list[T]:
        """What is made of each client's propagated features, kept with its graph."""

        def make(graph: Graph) -> T:
            return made(propagated_features(graph, propagated, hops), self.dtype)

        name = name_of(made, propagated, hops, self.dtype)
        return [g.cached(name, partial(make, g)) for g in self.graphs]

    def _nodes(self, read: Callable[[Graph], np.ndarray]) -> Tensor:
        return torch.from_numpy(np.concatenate([read(g) for g in self.graphs]))


class SameGraph(Cohort):
    """K models looking at one and the same graph, whose features are kept once."""

    def __init__(self, graph: Graph, k: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__([graph] * k, dtype=dtype)


def name_of(made: Made[T], propagated: str, hops: int, dtype: torch.dtype) -> str:
    """Under which what is made of propagated features is kept with a graph."""
    return f"{made} of {inputs_name(propagated, hops)} as {dtype}"
