"""Inputs of many clients, made for all of them at once rather than client by client."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from atoll.cohort.inputs import Inputs, Neighbourhood
from atoll.cohort.k_hop import KHop, part_of
from atoll.cohort.packed import Factors, Packed
from atoll.cohort.parts import Parts, split_rows
from atoll.cohort.union import Union
from atoll.cohort.whole import Whole
from atoll.device import of_numpy
from atoll.graph import Features, Graph, dense
from atoll.ops.features import DENSE_ABOVE
from atoll.ops.propagation import SYMMETRIC, fingerprint, sampled_entries, stored
from atoll.ops.sparse import Sparse, column_blocks

# From so many clients on, what is done client by client takes longer than what is done.
_MANY = 64


def inputs_of(graphs: Sequence[Graph], dtype: torch.dtype) -> Whole:
    """Whole graphs as inputs, joined where they are many."""
    alone = Whole(graphs, dtype)
    return alone if len(graphs) < _MANY or alone.shared else JoinedWhole(graphs, dtype)


class JoinedWhole(Whole):
    """All nodes of many clients' graphs."""

    @cached_property
    def union(self) -> Union:
        return Union(self.graphs)

    def _packed_operator(self, name: str) -> Sparse:
        symmetric = name in SYMMETRIC and self.union.symmetric
        return Sparse(self.union.operator(name), self.dtype, symmetric)

    def _packed_features(self, propagated: str, hops: int) -> Sparse | Tensor:
        return _features(self.union, propagated, hops, None, self.sizes, self.dtype)

    def _entries(self, name: str) -> tuple[float, float]:
        two = stored(self.union.x) + self.union.operator(name).nnz
        if two == np.inf:
            return two, two
        return two, sampled_entries(self.union.operator(name), self.union.x, None)

    def k_hop(self, reach: int, inside_K: Sequence[np.ndarray]) -> Neighbourhood | None:
        rows = self.union.k_hop_rows(reach, np.concatenate(inside_K))
        if len(rows) == self.union.nodes:
            return None
        part = JoinedKHop(self.graphs, self.union, rows, self.dtype, self)
        return Neighbourhood(part, part.nodes_K)

    def take(self, positions: Sequence[int]) -> Whole:
        return inputs_of([self.graphs[p] for p in positions], self.dtype)


class JoinedKHop(KHop):
    """Some nodes of many clients' graphs, ``rows [R]`` of their union."""

    def __init__(
        self,
        whole: Sequence[Graph],
        union: Union,
        rows: np.ndarray,
        dtype: torch.dtype,
        cut_from: Packed | None = None,
    ) -> None:
        self._cut_from = cut_from
        owner = union.owners(rows)
        size_K = np.bincount(owner, minlength=len(whole))
        Inputs.__init__(self, size_K.tolist(), dtype)
        self._whole, self.union, self._rows = whole, union, rows
        self.nodes_K = split_rows(rows - union.start_K[owner], size_K)
        self._graphs = Parts(whole, self.nodes_K, part_of)

    @cached_property
    def _parts(self) -> list[tuple[Graph, np.ndarray, str]]:  # type: ignore[override]
        pairs = zip(self._whole, self.nodes_K, strict=True)
        return [(graph, nodes, fingerprint(nodes)) for graph, nodes in pairs]

    def _packed_operator(self, name: str) -> Sparse:
        symmetric = name in SYMMETRIC and self.union.symmetric
        cut = self.union.operator(name)[self._rows][:, self._rows]
        return Sparse(cut, self.dtype, symmetric)

    def _packed_features(self, propagated: str, hops: int) -> Sparse | Tensor:
        return _features(self.union, propagated, hops, self._rows, self.sizes, self.dtype)

    def _entries(self, name: str) -> tuple[float, float]:
        if stored(self.union.x) == np.inf:
            return np.inf, np.inf
        operator, x, _ = self._all_around(name)
        whole = self.union.operator(name)
        return operator.nnz + stored(x), sampled_entries(whole, self.union.x, self._rows)

    def _two_factors(self, propagated: str, hops: int) -> Factors:
        operator, x, sizes = self._all_around(propagated)
        packed = _packed(x, sizes, self.dtype)
        return Factors(packed, (Sparse(operator, self.dtype),), sizes.tolist())

    def _all_around(self, name: str) -> tuple[sparse.csr_array, Features, np.ndarray]:
        """These rows of an operator; the features of the nodes that they refer to; how many of
        these each client has."""

        def cut() -> tuple[sparse.csr_array, Features, np.ndarray]:
            rows = self.union.operator(name)[self._rows]
            around = np.unique(rows.indices)
            count_K = np.bincount(self.union.owners(around), minlength=self.k)
            return rows[:, around], self.union.x[around], count_K

        return self.cached(f"{name} and what is around", cut)

    def take(self, positions: Sequence[int]) -> KHop:
        graphs, nodes_K = zip(*((self._whole[p], self.nodes_K[p]) for p in positions), strict=True)
        if len(graphs) < _MANY:
            return KHop(graphs, nodes_K, self.dtype)
        union = Union(graphs)
        rows = np.concatenate([n + s for n, s in zip(nodes_K, union.start_K, strict=True)])
        return JoinedKHop(graphs, union, rows, self.dtype)


def _features(
    union: Union,
    propagated: str,
    hops: int,
    rows: np.ndarray | None,
    sizes: Sequence[int],
    dtype: torch.dtype,
) -> Sparse | Tensor:
    """The (propagated) features of some rows, or of all, packed."""
    if propagated and hops:
        chosen = np.arange(union.nodes) if rows is None else rows
        x = union.propagated(
            propagated, hops, chosen, torch.empty(0, dtype=dtype).cpu().numpy().dtype
        )
    else:
        x = union.x if rows is None else union.x[rows]
    return _packed(x, np.asarray(sizes), dtype)


def _packed(x: Features, size_K: np.ndarray, dtype: torch.dtype) -> Sparse | Tensor:
    """As :func:`atoll.ops.features.pack_features` packs the rows of each client."""
    if sparse.issparse(x):
        rows = sparse.csr_array(x)
        if rows.nnz <= DENSE_ABOVE * rows.shape[0] * rows.shape[1]:
            return Sparse(column_blocks(rows, size_K), dtype)
    return of_numpy(np.ascontiguousarray(dense(x))).to(dtype)
