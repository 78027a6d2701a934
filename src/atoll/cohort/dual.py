"""The dual of wide first layers: what few nodes make of the weights, in place of the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from atoll.cohort.cohort import Cohort
from atoll.cohort.inputs import Inputs
from atoll.cohort.packed import Packed
from atoll.device import of_numpy
from atoll.graph import Features, Graph
from atoll.ops.sparse import Sparse, block_diagonal
from atoll.tree import Params

# A dense product does about so many multiplications in the time of one of a sparse product.
_DENSE_IS_FASTER = 4
# Small blocks are multiplied all at once, so a sparse operator must have far fewer entries to pay.
_SPARSE_IS_FASTER = 32


class FirstLayer(NamedTuple):
    """What a model does to features before anything else: ``P^hops X W``.

    ``weight`` is the name of W among the parameters, ``propagated`` that of P.
    """

    weight: str
    propagated: str
    hops: int


class Rows:
    """One client's ``X``: the first layer's inputs at the nodes that matter ``[m, f]``."""

    def __init__(self, x: Features, dtype: torch.dtype) -> None:
        self.x: Sparse | Tensor
        if sparse.issparse(x):
            self.x, self.entries = Sparse(sparse.csr_array(x), dtype), int(x.nnz)  # type: ignore[union-attr]
        else:
            self.x, self.entries = of_numpy(np.ascontiguousarray(x)).to(dtype), x.size

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


class Dual(Inputs):
    """Inputs of models that are given ``Z = X W``, the output of their first layer, for ``W``.

    A loss depends on the first layer's weights ``W [f, h]`` through ``Z [m, h]`` alone, at the
    nodes that matter, so its gradient is ``X^T G`` with ``G = dL/dZ``, and a step of gradient
    descent on W, ``W <- (1 - rate decay) W - rate X^T G``, takes Z to

        Z <- (1 - rate decay) Z - rate X X^T G.

    ``X X^T [m, m]`` is constant and, with few nodes and many features, far smaller than W: steps
    are taken on Z, and W is made once they are done (:mod:`atoll.optimizers.dual`). Values are
    those of descent on W, but for rounding. A model finds Z in its parameters under W's name.

    All clients are given as many rows, so that one product serves them: those with fewer nodes
    have further rows, joined to nothing.
    """

    by_rows: ClassVar[bool] = False

    def __init__(self, primal: Packed, layer: FirstLayer, rows_K: Sequence[Rows]) -> None:
        self.size = max(primal.sizes)
        super().__init__((self.size,) * primal.k, primal.dtype)
        self._primal = primal
        self._layer = layer
        self._rows_K = tuple(rows_K)
        self._gram = self._blocks([rows.gram for rows in self._rows_K])

    @property
    def graphs(self) -> Sequence[Graph]:
        raise TypeError("rows of a dual are not those of graphs")

    def _blocks(self, matrix_K: Sequence[Tensor]) -> Blocks:
        blocks = torch.zeros((self.k, self.size, self.size), dtype=self.dtype)
        for block, matrix in zip(blocks, matrix_K, strict=True):
            block[: len(matrix), : len(matrix)] = matrix
        return Blocks(blocks)

    def by_client(self, h: Tensor) -> Tensor:
        """``[N, c] -> [K, m, c]``."""
        return h.view(self.k, self.size, -1)

    def _own_rows(self, h: Tensor) -> list[Tensor]:
        """Each client's own rows of ``h [N, c]``."""
        h_K = self.by_client(h).unbind()
        return [h_k[:own] for h_k, own in zip(h_K, self._primal.sizes, strict=True)]

    def operator(self, name: str) -> Blocks | Sparse:
        def build() -> Blocks | Sparse:
            own = self._primal.operators(name)
            if self.k * self.size**2 > _SPARSE_IS_FASTER * sum(p.nnz for p in own):
                return Sparse(block_diagonal([_padded(p, self.size) for p in own]), self.dtype)
            return self._blocks([of_numpy(p.toarray()).to(self.dtype) for p in own])

        return self.cached(name, build)

    def linear(self, weight_K: Tensor, propagated: str = "", hops: int = 1) -> Tensor:
        # A copy: models go on to change the product in place.
        return weight_K.clone()

    @property
    def weight(self) -> str:
        """The first layer's weights by name."""
        return self._layer.weight

    def enter(self, params_K: Mapping[str, Tensor]) -> Params:
        """Parameters with Z in the place of W."""
        with torch.no_grad():
            weight_K = params_K[self.weight]
            z = weight_K.new_zeros((self.k * self.size, weight_K.shape[2]))
            for rows, own, w in zip(self._rows_K, self._own_rows(z), weight_K, strict=True):
                own.copy_(rows.x @ w)
        return {**params_K, self.weight: z}

    def steps(self, grads: Mapping[str, Tensor]) -> Params:
        """How gradient descent moves the parameters: ``X X^T G`` for Z, gradients otherwise."""
        return {**grads, self.weight: self._gram @ grads[self.weight]}

    def leave(self, grads: Mapping[str, Tensor]) -> Params:
        """Gradients with respect to W, ``X^T G``, from those with respect to Z."""
        g_K = self._own_rows(grads[self.weight])
        back = torch.stack([r.back(g) for r, g in zip(self._rows_K, g_K, strict=True)])
        return {**grads, self.weight: back}

    @torch.no_grad()
    def moved(self, weight_K: Tensor, kept: float, shift: Tensor) -> Tensor:
        """``kept W + X^T shift``, in place of W."""
        weight_K.mul_(kept)
        for rows, own, w in zip(self._rows_K, self._own_rows(shift), weight_K, strict=True):
            w.add_(rows.back(own))
        return weight_K


def dual_of(cohort: Cohort, layer: FirstLayer, reach: int | None, *splits: str) -> Cohort | None:
    """The cohort in the dual of the nodes that a loss on some splits depends on.

    None where descent there would not be cheaper than on the weights.
    """
    # Inputs of other kinds are not a function of features alone.
    if not isinstance(cohort.inputs, Packed):
        return None

    def build() -> Cohort | None:
        part = cohort.k_hop(reach, *splits)
        inputs = part.inputs
        assert isinstance(inputs, Packed)
        if inputs.shared:
            return None
        work = part.k * max(part.sizes) ** 2 / _DENSE_IS_FASTER - part.k * part.features
        if work > inputs.work_of_two_products(layer.propagated, layer.hops):
            return None
        rows_K = inputs.made_of_propagated(layer.propagated, layer.hops, Rows)
        if work > sum(rows.entries for rows in rows_K):
            return None
        return part.with_inputs(Dual(inputs, layer, rows_K))

    return cohort.cached(f"dual of {layer} within {reach} hops of {splits}", build)


def _padded(matrix: sparse.csr_array, size: int) -> sparse.csr_array:
    """``[size, size]``, with nothing in the rows and columns that were added."""
    pointers = np.pad(matrix.indptr, (0, size - matrix.shape[0]), mode="edge")
    return sparse.csr_array((matrix.data, matrix.indices, pointers), shape=(size, size))
