"""Inputs that follow from graphs alone, packed over clients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from atoll.cohort.inputs import Inputs
from atoll.graph import Features, Graph
from atoll.ops.features import DENSE_ABOVE, features_times, pack_features, same_features_times
from atoll.ops.own_rows import OwnRows, Places
from atoll.ops.propagation import SYMMETRIC, inputs_name
from atoll.ops.ragged_product import outer
from atoll.ops.sparse import Sparse, block_diagonal
from atoll.ops.written_out import ProductGradient

T = TypeVar("T")
# Which columns a sparse matrix of features has: all of each client, those of its own, or the same
# for everybody.
Columns = Literal["each", "own", "common"]
Pull: TypeAlias = Callable[[Tensor], "Tensor | ProductGradient"]
Make: TypeAlias = Callable[[Features, torch.dtype], T]

# P X is not made where the products with X and then with P take less than this share of its cost.
_TWO_PRODUCTS_BELOW = 0.6


class Factors(NamedTuple):
    """What a first layer is a product of: features, then operators if these are not in them.

    ``sizes`` are the rows of features that each client has.
    """

    x: Sparse | Tensor
    operators: tuple[Sparse, ...]
    sizes: Sequence[int]


class Packed(Inputs):
    """Features and operators of graphs, or of some of their nodes, packed into one matrix each.

    ``P^hops X`` is constant while the graph is, so it is computed once and a first layer costs one
    product. Where P X has many times the entries of X, ``P (X W)`` is computed instead.
    """

    def __init__(self, graphs: Sequence[Graph], dtype: torch.dtype) -> None:
        super().__init__([g.nodes for g in graphs], dtype)
        self._graphs: Sequence[Graph] = tuple(graphs)
        first = graphs[0]
        self.shared = len(graphs) > 1 and all(
            g.x is first.x and g.edges is first.edges and g.weights is first.weights for g in graphs
        )

    @property
    def graphs(self) -> Sequence[Graph]:
        return self._graphs

    @property
    def places(self) -> Places | None:
        """The features that each client's nodes have, where these are known and few enough.

        :meth:`linear` then takes the clients' own rows ``[R, h]`` for a stack as well.
        """
        return None

    @abstractmethod
    def operators(self, name: str) -> list[sparse.csr_array]:
        """Each client's propagation matrix."""

    @abstractmethod
    def propagated_K(self, propagated: str, hops: int) -> list[Features]:
        """Each client's propagated features."""

    @abstractmethod
    def made_of_propagated(self, propagated: str, hops: int, make: Make[T]) -> list[T]:
        """What is made of each client's propagated features, kept with its graph."""

    @abstractmethod
    def _entries(self, name: str) -> tuple[float, float]:
        """Of the features and an operator; and, about, of their product."""

    @abstractmethod
    def _two_factors(self, propagated: str, hops: int) -> Factors:
        """``P^hops`` and X."""

    def linear(self, weight_K: Tensor, propagated: str = "", hops: int = 1) -> Tensor:
        if isinstance(weight_K, OwnRows):
            few = weight_K.compact and weight_K.places is self.places
            weight_K = weight_K.own if few else weight_K.written
        two = bool(propagated) and self._takes_two_products(propagated, hops)
        own = weight_K.dim() == 2
        factors = self._factors(propagated, hops, two, "own" if own else "each")
        if self.shared:
            h = same_features_times(factors.x, weight_K)
        else:
            h = features_times(factors.x, weight_K, factors.sizes)
        for operator in factors.operators:
            h = operator @ h
        return h

    def linear_vjp(
        self, weight_K: Tensor, propagated: str = "", hops: int = 1
    ) -> tuple[Tensor, Pull] | None:
        """What :meth:`linear` gives, and how a gradient with respect to it becomes one with
        respect to the weights. None where clients hold the same graph."""
        if self.shared:
            return None
        two = bool(propagated) and self.work_of_two_products(propagated, hops) < np.inf
        own = weight_K if isinstance(weight_K, OwnRows) and weight_K.compact else None
        if own is None:
            given = weight_K.written if isinstance(weight_K, OwnRows) else weight_K
        else:
            given = own.common if own.alike else own.own
        x, operators, sizes = self._factors(
            propagated, hops, two, "own" if own is not None or given.dim() == 2 else "each"
        )
        source = x
        if own is not None and own.alike:
            source = self._factors(propagated, hops, two, "common").x
        h = features_times(source, given, sizes)
        for operator in operators:
            h = operator @ h
        alike = own if own is not None and own.alike else None
        shape = weight_K.shape if own is None else own.room().shape

        def pull(errors: Tensor) -> Tensor | ProductGradient:
            for operator in reversed(operators):
                errors = operator.t @ errors
            if isinstance(x, Tensor):
                return outer(x, errors, tuple(sizes))
            return ProductGradient(x.t, errors, shape, alike)

        return h, pull

    def _factors(self, propagated: str, hops: int, two: bool, columns: Columns) -> Factors:
        def find() -> Factors:
            if two:
                return self._two_factors(propagated, hops)
            name = inputs_name(propagated, hops)
            x = self.cached(name, lambda: self._packed_features(propagated, hops))
            return Factors(x, (), self.sizes)

        key = f"factors of {inputs_name(propagated, hops)}, {two}"
        found = self.cached(key, find)
        if columns == "each":
            return found
        return found._replace(
            x=self.cached(f"{columns} columns in {key}", lambda: self._with(columns, found.x))
        )

    def _with(self, columns: Columns, x: Sparse | Tensor) -> Sparse:
        places = self.places
        assert places is not None
        assert isinstance(x, Sparse)
        if columns == "own":
            return x.with_columns(places.among_own, len(places.rows))
        everybody = np.tile(np.arange(places.features, dtype=np.int32), places.k)
        return x.with_columns(everybody, places.features)

    def _packed_features(self, propagated: str, hops: int) -> Sparse | Tensor:
        x_K = self.propagated_K(propagated, hops)
        return pack_features(x_K[:1] if self.shared else x_K, self.dtype)

    def _takes_two_products(self, propagated: str, hops: int) -> bool:
        return self.work_of_two_products(propagated, hops) < np.inf

    def work_of_two_products(self, propagated: str, hops: int) -> float:
        """The entries of X and of an operator, where these are far fewer than those of ``P X``.

        Infinite elsewhere.
        """
        if hops != 1:
            return np.inf

        def count() -> float:
            two, one = self._entries(propagated)
            one = min(DENSE_ABOVE * sum(self.sizes) * self._graphs[0].features, one)
            return two if two < _TWO_PRODUCTS_BELOW * one else np.inf

        return self.cached(f"work of two products with {propagated}", count)

    def operator(self, name: str) -> Sparse:
        return self.cached(name, lambda: self._packed_operator(name))

    def _packed_operator(self, name: str) -> Sparse:
        symmetric = name in SYMMETRIC and all(g.symmetric for g in self._graphs)
        return Sparse(block_diagonal(self.operators(name)), self.dtype, symmetric)

    def operator_at(self, name: str, rows: Tensor) -> Sparse:
        return self.operator(name).at(rows)


def name_of(make: Make[T], propagated: str, hops: int, dtype: torch.dtype) -> str:
    """Under which what is made of propagated features is kept with a graph."""
    return f"{make} of {inputs_name(propagated, hops)} as {dtype} on {torch.get_default_device()}"
