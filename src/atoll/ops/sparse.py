"""Constant sparse matrices with a fast, twice-differentiable product."""

from __future__ import annotations

import warnings
from functools import cached_property, partial
from typing import Any, cast
from weakref import ref

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from atoll.device import of_numpy
from atoll.kernels import array, fit, kernels, wide
from atoll.kernels.sharing import share


class Sparse:
    """A constant CSR matrix that knows its transpose.

    Indices are 32-bit: that is MKL's width, and 64-bit ones are converted at every call. The
    transpose is stored rather than derived, which halves the cost of a backward pass.
    """

    def __init__(
        self, matrix: sparse.csr_array, dtype: torch.dtype, symmetric: bool = False
    ) -> None:
        matrix = sparse.csr_array(matrix)
        self.shape = cast(tuple[int, int], matrix.shape)
        self.symmetric = symmetric
        # Only a transpose that is still to be made needs it.
        self._scipy = None if symmetric else matrix
        self._dtype = dtype
        # The matrix of which this is the transpose, if it is one.
        self._original: ref[Sparse] | None = None
        self.csr = _torch_csr(matrix, dtype)

    @property
    def t(self) -> Sparse:
        if self.symmetric:
            return self
        original = None if self._original is None else self._original()
        return self._transpose if original is None else original

    @cached_property
    def _transpose(self) -> Sparse:
        assert self._scipy is not None
        transpose = Sparse(self._scipy.T.tocsr(), self._dtype)
        # Weakly, or the two would outlive their last use: a mini-batch has matrices of its own.
        transpose._original = ref(self)
        return transpose

    @cached_property
    def values(self) -> Tensor:
        """The entries; asking the matrix for them makes a view at every turn."""
        return self.csr.values()

    @cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pointers, indices and entries as compiled kernels take them."""
        return (
            array(self.csr.crow_indices()),
            array(self.csr.col_indices()),
            array(self.values),
        )

    def with_columns(self, numbers: np.ndarray, count: int) -> Sparse:
        """The same entries where column j is now ``numbers[j]`` of ``count``, order kept."""
        pointers, indices, data = self._parts()
        matrix = sparse.csr_array((data, numbers[indices], pointers), shape=(self.shape[0], count))
        return Sparse(matrix, self._dtype)

    def _parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        parts = self.csr.crow_indices(), self.csr.col_indices(), self.csr.values()
        pointers, indices, data = (part.cpu().numpy() for part in parts)
        return pointers, indices, data

    def at(self, rows: Tensor) -> Sparse:
        """The matrix of some of the rows ``[R, m]``."""
        pointers, indices, data = self._parts()
        whole = sparse.csr_array((data, indices, pointers), shape=self.shape)
        return Sparse(whole[rows.cpu().numpy()], self._dtype)

    def block(self, rows: np.ndarray) -> Sparse:
        """Some of the rows and the same columns ``[R, R]``, in that order.

        These rows have no entries in other columns.
        """
        pointers, indices, data = self._parts()
        length = np.diff(pointers)[rows]
        end = np.cumsum(length)
        entries = (
            np.repeat(pointers[rows] - (end - length), length) + np.arange(len(indices))[: end[-1]]
        )
        place = np.empty(self.shape[0], dtype=indices.dtype)
        place[rows] = np.arange(len(rows), dtype=indices.dtype)
        own = np.append(np.zeros(1, dtype=end.dtype), end)
        shape = (len(rows), len(rows))
        matrix = sparse.csr_array((data[entries], place[indices[entries]], own), shape=shape)
        return Sparse(matrix, self._dtype, self.symmetric)

    def __matmul__(self, dense: Tensor) -> Tensor:
        """``[n, m] @ [m, h] -> [n, h]``, differentiable in the dense factor."""
        if torch.is_grad_enabled() and dense.requires_grad:
            return cast(Tensor, _Product.apply(dense, self))  # type: ignore[no-untyped-call]
        return self._times(dense)

    def _times(self, dense: Tensor) -> Tensor:
        result = dense.new_empty(self.shape[0], dense.shape[1])
        if fit(dense, self.values) and wide(dense):
            parts = *self.arrays, array(dense), array(result)
            product = partial(kernels("sparse").csr_product, *parts)
            share(product, self.shape[0], 2.0 * len(parts[1]) * dense.shape[1])
            return result
        # Written as an addition to nothing: a plain product would fill and copy the result first.
        return torch.addmm(result, self.csr, dense, beta=0, out=result)


class _Product(torch.autograd.Function):
    """``A X``; its backward is the same product with ``A^T``, so any order of gradient works."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: Sparse) -> Tensor:
        ctx.matrix = matrix
        return matrix._times(dense)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix.t @ grad.contiguous(), None


def _torch_csr(matrix: sparse.csr_array, dtype: torch.dtype) -> Tensor:
    if max(matrix.nnz, *matrix.shape) >= 2**31:
        raise ValueError(f"a sparse matrix of shape {matrix.shape} exceeds 32-bit indices")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            of_numpy(matrix.indptr.astype(np.int32, copy=False)),
            of_numpy(matrix.indices.astype(np.int32, copy=False)),
            of_numpy(np.ascontiguousarray(matrix.data)).to(dtype),
            size=matrix.shape,
            dtype=dtype,
            check_invariants=False,
        )


def block_diagonal(blocks: list[sparse.csr_array]) -> sparse.csr_array:
    """CSR blocks along the diagonal, assembled without going through coordinates."""
    if len(blocks) == 1:
        return blocks[0]
    rows = sum(b.shape[0] for b in blocks)
    column_shift = np.cumsum([0] + [b.shape[1] for b in blocks])
    entry_shift = np.cumsum([0] + [b.nnz for b in blocks])
    # Written at its final width: a wider array in passing would be the largest thing in memory.
    narrow = max(column_shift[-1], entry_shift[-1]) < 2**31
    indices = np.empty(entry_shift[-1], dtype=np.int32 if narrow else np.int64)
    for b, shift, at in zip(blocks, column_shift[:-1], entry_shift[:-1], strict=True):
        np.add(b.indices, shift, out=indices[at : at + b.nnz], casting="unsafe")
    ends = [b.indptr[1:] + s for b, s in zip(blocks, entry_shift[:-1], strict=True)]
    pointers = np.concatenate([[0], *ends]).astype(indices.dtype)
    return sparse.csr_array(
        (np.concatenate([b.data for b in blocks]), indices, pointers),
        shape=(rows, int(column_shift[-1])),
    )


def column_blocks(matrix: sparse.csr_array, size_K: np.ndarray) -> sparse.csr_array:
    """K blocks one below the other ``[N, f]``, as blocks along the diagonal ``[N, K f]``."""
    width = matrix.shape[1]
    entries_K = np.diff(matrix.indptr[np.concatenate([[0], np.cumsum(size_K)])])
    narrow = len(size_K) * width < 2**31
    shift = np.arange(len(size_K), dtype=np.int32 if narrow else np.int64) * width
    columns = matrix.indices + np.repeat(shift, entries_K)
    return sparse.csr_array(
        (matrix.data, columns, matrix.indptr), shape=(matrix.shape[0], len(size_K) * width)
    )


def gcn_operator(adjacency: sparse.csr_array) -> sparse.csr_array:
    """``D^-1/2 (A + I) D^-1/2`` with D the degrees of ``A + I`` (Kipf and Welling, 2017).

    Degrees are sums of weights; a node's loop weighs 1.
    """
    with_loops = adjacency + sparse.eye_array(adjacency.shape[0], format="csr")
    scale = 1.0 / np.sqrt(with_loops.sum(axis=1))
    with_loops.data *= np.repeat(scale, np.diff(with_loops.indptr))
    with_loops.data *= scale[with_loops.indices]
    return with_loops


def mean_operator(adjacency: sparse.csr_array) -> sparse.csr_array:
    """``D^-1 A``: the (weighted) mean over a node's neighbours, zero where it has none."""
    degree = adjacency.sum(axis=1)
    scale = np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)
    return sparse.csr_array(sparse.diags_array(scale) @ adjacency)


def sum_and_own_operator(adjacency: sparse.csr_array) -> sparse.csr_array:
    """``A + I``: the (weighted) sum over a node's neighbours and itself."""
    return sparse.csr_array(adjacency + sparse.eye_array(adjacency.shape[0], format="csr"))


def neighbour_operator(adjacency: sparse.csr_array) -> sparse.csr_array:
    """``D^-1/2 A D^-1/2``: as :func:`gcn_operator` but without loops."""
    degree = adjacency.sum(axis=1)
    scale = np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
    return sparse.csr_array(sparse.diags_array(scale) @ adjacency @ sparse.diags_array(scale))
