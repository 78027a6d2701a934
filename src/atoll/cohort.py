"""The data of K clients, packed so that one operation serves them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from atoll.graph import Features, Graph, dense
from atoll.ops.ragged import ragged_linear
from atoll.ops.sparse import Sparse, block_diagonal, gcn_operator, mean_operator
from atoll.tree import Ragged

# Above this share of non-zeros a dense product is faster than a sparse one.
_DENSE_ABOVE = 0.25

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
        self._packed: dict[str, Sparse | Tensor] = {}

    def take(self, positions: Sequence[int]) -> Cohort:
        graphs = [self.graphs[p] for p in positions]
        return Cohort(graphs, [self.clients[p] for p in positions], self.dtype)

    def with_graphs(self, graphs: Sequence[Graph]) -> Cohort:
        return Cohort(graphs, self.clients, self.dtype)

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
        key = f"rows:{split}"
        if key not in self._packed:
            mask = self._nodes(lambda g: np.asarray(getattr(g, split)))
            self._packed[key] = mask.nonzero().flatten()
        rows = self._packed[key]
        assert isinstance(rows, Tensor)
        return rows

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
            blocks = [_operator(g, name) for g in self.graphs]
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
        while the graph is, so it is computed once and the first layer costs one product.
        """
        key = f"{propagated}^{hops}@x" if propagated else "x"
        if key not in self._packed:
            self._packed[key] = self._pack_features(propagated, hops, key)
        packed = self._packed[key]
        if isinstance(packed, Sparse):
            return packed @ weight_K.flatten(0, 1)
        return ragged_linear(packed, weight_K, self.sizes)

    def add_bias(self, h: Tensor, bias_K: Tensor) -> Tensor:
        """``h [N, c] + bias_K[client of the node]``; reuses the memory of ``h``."""
        return h.add_(bias_K if self.k == 1 else bias_K.index_select(0, self.batch))

    def _pack_features(self, propagated: str, hops: int, key: str) -> Sparse | Tensor:
        blocks = [_propagated(g, propagated, hops, key) for g in self.graphs]
        entries = sum(b.nnz if sparse.issparse(b) else b.size for b in blocks)  # type: ignore[union-attr, misc]
        if entries <= _DENSE_ABOVE * sum(self.sizes) * self.features:
            return Sparse(block_diagonal([sparse.csr_array(b) for b in blocks]), self.dtype)
        return torch.from_numpy(np.concatenate([dense(b) for b in blocks])).to(self.dtype)

    def _nodes(self, read: Callable[[Graph], np.ndarray]) -> Tensor:
        return torch.from_numpy(np.concatenate([read(g) for g in self.graphs]))


class SameGraph(Cohort):
    """K models looking at one and the same graph, whose features are kept once."""

    def __init__(self, graph: Graph, k: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__([graph] * k, dtype=dtype)

    def linear(self, weight_K: Tensor, propagated: str = "", hops: int = 1) -> Tensor:
        key = f"{propagated}^{hops}@x" if propagated else "x"
        if key not in self._packed:
            features = dense(_propagated(self.graphs[0], propagated, hops, key))
            self._packed[key] = torch.from_numpy(features).to(self.dtype)
        packed = self._packed[key]
        assert isinstance(packed, Tensor)
        return torch.matmul(packed, weight_K).flatten(0, 1)


def _operator(graph: Graph, name: str) -> sparse.csr_array:
    build = {"gcn": gcn_operator, "mean": mean_operator}[name]
    return graph.cached(name, lambda: build(graph.adjacency))


def _propagated(graph: Graph, operator: str, hops: int, key: str) -> Features:
    def propagate() -> Features:
        x: Features = graph.x
        for _ in range(hops if operator else 0):
            x = _operator(graph, operator) @ x
        return x

    return graph.cached(key, propagate)
