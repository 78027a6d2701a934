"""The graphs of many clients as one without edges between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy import sparse

from atoll.cached import Cached
from atoll.graph import Features, Graph
from atoll.ops.features import DENSE_ABOVE
from atoll.ops.propagation import DENSE_K_HOP_BELOW, K_HOP_BELOW, made_operator, stored

# So many rows at a time are propagated: in double precision, of which no more is held than stays
# in a processor's cache.
_ROWS_AT_ONCE = 4_096


class Union(Cached):
    """K graphs one after the other: node i of the client at k is row ``start[k] + i``.

    What follows from each graph alone (operators, propagated features, neighbourhoods) is made for
    all of them at once, with the numbers that each would give by itself.
    """

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self._graphs = graphs
        self.size_K = np.array([g.nodes for g in graphs])
        self.end_K = np.cumsum(self.size_K)
        self.start_K = self.end_K - self.size_K
        self.nodes = int(self.end_K[-1])

    @property
    def x(self) -> Features:
        """All features, one client's below the other's; the clients' own memory if that is so."""
        return self.cached("x", lambda: stacked_features([g.x for g in self._graphs]))

    @property
    def adjacency(self) -> sparse.csr_array:
        """``A[target, source] = 1``, duplicates merged."""
        return self.cached("adjacency", lambda: self._adjacency(weighted=False))

    @property
    def weighted_adjacency(self) -> sparse.csr_array:
        """``A[target, source]`` is the edge's weight, those of duplicates added."""
        if all(g.weights is None for g in self._graphs):
            return self.adjacency
        return self.cached("weighted adjacency", lambda: self._adjacency(weighted=True))

    def _adjacency(self, weighted: bool) -> sparse.csr_array:
        count_K = [g.edges.shape[1] for g in self._graphs]
        index = np.int32 if self.nodes < 2**31 else np.int64
        ends = np.empty((2, sum(count_K)), dtype=index)
        np.concatenate([g.edges for g in self._graphs], axis=1, out=ends, casting="unsafe")
        ends += np.repeat(self.start_K.astype(index), count_K)
        weights = np.ones(ends.shape[1])
        if weighted:
            parts = zip(self._graphs, count_K, strict=True)
            weights = np.concatenate(
                [np.ones(n) if g.weights is None else g.weights for g, n in parts]
            )
        a = sparse.csr_array((weights, (ends[1], ends[0])), shape=(self.nodes,) * 2)
        a.sum_duplicates()
        if not weighted:
            a.data[:] = 1.0
        return a

    @property
    def symmetric(self) -> bool:
        """Whether every edge has its reverse, of the same weight."""

        def check() -> bool:
            a = self.weighted_adjacency
            t = a.T.tocsr()
            pairs = ((a.indptr, t.indptr), (a.indices, t.indices), (a.data, t.data))
            return all(np.array_equal(one, other) for one, other in pairs)

        return self.cached("symmetric", check)

    def operator(self, name: str) -> sparse.csr_array:
        """A propagation matrix, in blocks along the diagonal."""
        return self.cached(name, lambda: made_operator(self.weighted_adjacency, name))

    def propagated(self, name: str, hops: int, rows: np.ndarray, dtype: np.dtype) -> Features:
        """``P^hops X`` at some rows, ascending."""
        x, p = self.x, self.operator(name)
        if sparse.issparse(x):
            for _ in range(hops):
                x = p @ x
            return x[rows].astype(dtype)
        out = np.empty((len(rows), x.shape[1]), dtype=dtype)
        for first, end in self._groups():
            chosen = slice(*np.searchsorted(rows, (first, end)))
            part, block = x[first:end], p[first:end, first:end]
            own = rows[chosen] - first
            for _ in range(hops - 1):
                part = block @ part
            if len(own) < end - first:
                block = block[own]
            np.copyto(out[chosen], block @ part, casting="same_kind")
        return out

    def _groups(self) -> Iterator[tuple[int, int]]:
        """Runs of rows of whole clients, as short as ``_ROWS_AT_ONCE`` where clients allow."""
        first = 0
        while first < self.nodes:
            k = int(np.searchsorted(self.end_K, first + _ROWS_AT_ONCE, side="right"))
            smallest = int(np.searchsorted(self.end_K, first, side="right"))
            end = int(self.end_K[max(k - 1, smallest)])
            yield first, end
            first = end

    def owners(self, rows: np.ndarray) -> np.ndarray:
        """The positions of some rows' clients."""
        return np.searchsorted(self.end_K, rows, side="right")

    def k_hop_rows(self, reach: int, inside: np.ndarray) -> np.ndarray:
        """The rows within ``reach`` hops of those ``inside [N]``; of each client all rows unless
        those are few (:func:`atoll.ops.propagation.k_hop_nodes`)."""
        most_K = self._few_K()
        reached = inside.copy()
        empty = self._count_K(inside) == 0
        reached[self.start_K[empty & (self.size_K > 0)]] = True  # no client is empty
        for _ in range(reach):
            few_K = self._count_K(reached) <= most_K
            growing = np.flatnonzero(reached & np.repeat(few_K, self.size_K))
            reached[self.adjacency[growing].indices] = True
        few_K = self._count_K(reached) <= most_K
        return np.flatnonzero(reached | np.repeat(~few_K, self.size_K))

    def _few_K(self) -> np.ndarray:
        """The nodes of each client that are few, at most."""
        below: float | np.ndarray = DENSE_K_HOP_BELOW
        if sparse.issparse(self.x):
            entries_K = np.array([stored(g.x) for g in self._graphs])
            dense_K = entries_K > DENSE_ABOVE * self.size_K * self.x.shape[1]
            below = np.where(dense_K, DENSE_K_HOP_BELOW, K_HOP_BELOW)
        return below * self.size_K

    def _count_K(self, mask: np.ndarray) -> np.ndarray:
        total = np.concatenate([[0], np.cumsum(mask)])
        counts: np.ndarray = total[self.end_K] - total[self.start_K]
        return counts


def stacked_features(x_K: Sequence[Features]) -> Features:
    """All rows; without a copy where they lie one after the other in memory already."""
    if any(sparse.issparse(x) for x in x_K):
        return sparse.csr_array(sparse.vstack([sparse.csr_array(x) for x in x_K]))
    arrays = [np.asarray(x) for x in x_K]
    found = _neighbours(arrays)
    return np.concatenate(arrays) if found is None else found


def _neighbours(arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Consecutive rows of one array as a view of it; None where they are no such thing."""
    first, base = arrays[0], arrays[0].base
    if not isinstance(base, np.ndarray) or not base.flags.c_contiguous:
        return None
    if base.dtype != first.dtype or any(a.base is not base for a in arrays):
        return None
    at = _address(first)
    for a in arrays:
        if not a.flags.c_contiguous or _address(a) != at:
            return None
        at += a.nbytes
    begin = (_address(first) - _address(base)) // base.itemsize
    numbers = base.reshape(-1)[begin : begin + sum(a.size for a in arrays)]
    return numbers.reshape(-1, first.shape[1])


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])
