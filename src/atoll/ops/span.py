"""Gradient descent on wide first layers, where few nodes are looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from atoll.cohort import Cohort
from atoll.graph import Features, Graph
from atoll.models.base import FirstLayer, Model
from atoll.near import Near
from atoll.ops.optimize import SGD
from atoll.ops.sparse import Sparse, block_diagonal
from atoll.tree import Params

# A dense product does about so many multiplications in the time of one of a sparse product.
_DENSE_IS_FASTER = 4
# Small blocks are multiplied all at once, so a sparse operator must have far fewer entries to pay.
_SPARSE_IS_FASTER = 32


class Rows:
    """One client's ``X``: the first layer's inputs at the nodes in sight ``[m, f]``."""

    def __init__(self, x: Features, dtype: torch.dtype) -> None:
        self.x: Sparse | Tensor
        if sparse.issparse(x):
            self.x, self.entries = Sparse(sparse.csr_array(x), dtype), int(x.nnz)  # type: ignore[union-attr]
        else:
            self.x, self.entries = torch.from_numpy(np.ascontiguousarray(x)).to(dtype), x.size

    @cached_property
    def gram(self) -> Tensor:
        """``X X^T [m, m]``."""
        x = self.x if isinstance(self.x, Tensor) else self.x.csr.to_dense()
        return x @ x.T

    def back(self, h: Tensor) -> Tensor:
        """``X^T h``."""
        return self.x.T @ h if isinstance(self.x, Tensor) else self.x.t @ h


@dataclass(frozen=True, eq=False)
class Blocks:
    """A block-diagonal matrix of equal blocks ``[K, m, m]``, kept dense."""

    blocks: Tensor

    @property
    def t(self) -> Blocks:
        return Blocks(self.blocks.transpose(1, 2))

    def __matmul__(self, h: Tensor) -> Tensor:
        k, m, _ = self.blocks.shape
        return torch.bmm(self.blocks, h.view(k, m, -1)).flatten(0, 1)


class Span(Cohort):
    """K clients whose models are told ``Z = X W``, the output of their first layer, for ``W``.

    A loss sees the first layer's weights ``W [f, h]`` through ``Z [m, h]`` alone, at the nodes in
    sight, so its gradient is ``X^T G`` with ``G = dL/dZ``, and a step of gradient descent on W,
    ``W <- (1 - rate decay) W - rate X^T G``, takes Z to

        Z <- (1 - rate decay) Z - rate X X^T G.

    ``X X^T [m, m]`` is constant and, with few nodes and many features, far smaller than W: steps
    are taken on Z, and W is made once they are done. Values are those of descent on W, but for
    rounding. A model finds Z in its parameters under the name of W.

    All clients are given as many nodes, so that one product serves them: those without as many
    have further ones that are joined to nothing and in no split.
    """

    def __init__(self, seen: Cohort, layer: FirstLayer, rows_K: Sequence[Rows]) -> None:
        super().__init__(seen.graphs, seen.clients, seen.dtype)
        self._seen = seen
        self._layer = layer
        self._rows_K = tuple(rows_K)
        self._own = seen.sizes
        self._size = max(seen.sizes)
        self.sizes = (self._size,) * self.k
        self._gram = self._blocks([rows.gram for rows in self._rows_K])

    def _blocks(self, matrix_K: Sequence[Tensor]) -> Blocks:
        blocks = torch.zeros((self.k, self._size, self._size), dtype=self.dtype)
        for block, matrix in zip(blocks, matrix_K, strict=True):
            block[: len(matrix), : len(matrix)] = matrix
        return Blocks(blocks)

    def _nodes(self, read: Callable[[Graph], np.ndarray]) -> Tensor:
        """Nodes that were added have no label and are in no split."""
        nodes_K = [np.asarray(read(graph)) for graph in self.graphs]
        lent = (np.zeros(self._size - len(nodes), dtype=nodes.dtype) for nodes in nodes_K)
        pairs = zip(nodes_K, lent, strict=True)
        return torch.from_numpy(np.concatenate([part for pair in pairs for part in pair]))

    def by_client(self, h: Tensor) -> Tensor:
        """``[N, c] -> [K, m, c]``."""
        return h.view(self.k, self._size, -1)

    def _own_rows(self, h: Tensor) -> list[Tensor]:
        """Each client's own rows of ``h [N, c]``."""
        h_K = self.by_client(h).unbind()
        return [h_k[:own] for h_k, own in zip(h_K, self._own, strict=True)]

    def relabelled(self, graphs: Sequence[Graph]) -> Span:
        other = Span(self._seen, self._layer, self._rows_K)
        other.graphs = tuple(graphs)
        return other

    def near(self, reach: int | None, *splits: str) -> Cohort:
        return self

    def operator(self, name: str) -> Blocks | Sparse:  # type: ignore[override]
        def build() -> Blocks | Sparse:
            own = self._seen.operators(name)
            if self.k * self._size**2 > _SPARSE_IS_FASTER * sum(p.nnz for p in own):
                return Sparse(block_diagonal([_padded(p, self._size) for p in own]), self.dtype)
            return self._blocks([torch.from_numpy(p.toarray()).to(self.dtype) for p in own])

        return self._seen.cached(f"{name} of a span", build)

    def linear(self, weight_K: Tensor, propagated: str = "", hops: int = 1) -> Tensor:
        # A copy: models go on to change the product in place.
        return weight_K.clone()

    def enter(self, params_K: Mapping[str, Tensor]) -> Params:
        """Parameters with Z in the place of W."""
        with torch.no_grad():
            weight_K = params_K[self._layer.weight]
            z = weight_K.new_zeros((self.k * self._size, weight_K.shape[2]))
            for rows, own, w in zip(self._rows_K, self._own_rows(z), weight_K, strict=True):
                own.copy_(rows.x @ w)
        return {**params_K, self._layer.weight: z}

    def steps(self, grads: Mapping[str, Tensor]) -> Params:
        """How gradient descent moves the parameters: ``X X^T G`` for Z, gradients otherwise."""
        return {**grads, self._layer.weight: self._gram @ grads[self._layer.weight]}

    def leave(self, grads: Mapping[str, Tensor]) -> Params:
        """Gradients with respect to W, ``X^T G``, from those with respect to Z."""
        g_K = self._own_rows(grads[self._layer.weight])
        back = torch.stack([r.back(g) for r, g in zip(self._rows_K, g_K, strict=True)])
        return {**grads, self._layer.weight: back}

    @torch.no_grad()
    def moved(self, weight_K: Tensor, kept: float, shift: Tensor) -> Tensor:
        """``kept W + X^T shift``, in place of W."""
        weight_K.mul_(kept)
        for rows, own, w in zip(self._rows_K, self._own_rows(shift), weight_K, strict=True):
            w.add_(rows.back(own))
        return weight_K

    @property
    def weight(self) -> str:
        """The first layer's weights by name."""
        return self._layer.weight


def _padded(matrix: sparse.csr_array, size: int) -> sparse.csr_array:
    """``[size, size]``, with nothing in the rows and columns that were added."""
    pointers = np.pad(matrix.indptr, (0, size - matrix.shape[0]), mode="edge")
    return sparse.csr_array((matrix.data, matrix.indices, pointers), shape=(size, size))


def span_of(model: Model, cohort: Cohort, *splits: str) -> Span | None:
    """What a loss on some splits sees, if descent there is cheaper than on the weights."""
    layer = model.first_layer
    # Cohorts of other kinds have inputs that are not in their graphs.
    if layer is None or type(cohort) not in (Cohort, Near):
        return None

    def build() -> Span | None:
        seen = cohort.near(model.reach, *splits)
        if seen.one_graph:
            return None
        in_span = seen.k * max(seen.sizes) ** 2 / _DENSE_IS_FASTER - seen.k * seen.features
        if in_span > seen.work_apart(layer.propagated, layer.hops):
            return None
        rows_K = seen.kept_inputs(layer.propagated, layer.hops, Rows)
        if in_span > sum(rows.entries for rows in rows_K):
            return None
        return Span(seen, layer, rows_K)

    return cohort.cached(f"span of {layer} within {model.reach} hops of {splits}", build)


class Walk:
    """Gradient descent in a span: ``params`` are where it is, ``arrive`` gives the weights."""

    def __init__(self, span: Span, params_K: Params, optimizer: SGD) -> None:
        self._span = span
        self._start = params_K
        self._rate = optimizer.lr
        self._keep = 1.0 - optimizer.lr * optimizer.weight_decay
        self._kept = 1.0
        self.params = {n: p.detach().requires_grad_() for n, p in span.enter(params_K).items()}
        self._shift = torch.zeros_like(self.params[span.weight])

    @torch.no_grad()
    def step(self, grads: Mapping[str, Tensor]) -> None:
        for name, move in self._span.steps(grads).items():
            self.params[name].mul_(self._keep).sub_(move, alpha=self._rate)
        self._shift.mul_(self._keep).sub_(grads[self._span.weight], alpha=self._rate)
        self._kept *= self._keep

    def arrive(self) -> Params:
        """The parameters after all steps; reuses the memory of those it began with."""
        first = self._span.weight
        weight_K = self._span.moved(self._start[first].detach(), self._kept, self._shift)
        return {n: weight_K if n == first else p.detach() for n, p in self.params.items()}


def descend_in_span(
    model: Model, span: Span, params_K: Params, optimizer: SGD, epochs: int
) -> tuple[Walk, Tensor]:
    """``epochs`` steps on each client's cross-entropy: where they lead, and the losses before."""
    walk = Walk(span, params_K, optimizer)
    with torch.no_grad():
        loss_K = model.nll(walk.params, span)
    for _ in range(epochs):
        walk.step(model.nll_gradient(walk.params, span))
    return walk, loss_K
