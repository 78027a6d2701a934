"""Inputs that follow from graphs alone, packed over clients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from atoll.cohort.inputs import Inputs
from atoll.graph import Features, Graph
from atoll.ops.features import DENSE_ABOVE, features_times, pack_features, same_features_times
from atoll.ops.own_rows import OwnRows, Places
from atoll.ops.propagation import inputs_name
from atoll.ops.sparse import Sparse, block_diagonal

T = TypeVar("T")
Make: TypeAlias = Callable[[Features, torch.dtype], T]

# P X is not made where the products with X and then with P take less than this share of its cost.
_TWO_PRODUCTS_BELOW = 0.6


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
    def _two_products(self, weight_K: Tensor, propagated: str, hops: int) -> Tensor:
        """``P^hops (X W)``."""

    def linear(self, weight_K: Tensor, propagated: str = "", hops: int = 1) -> Tensor:
        if isinstance(weight_K, OwnRows):
            few = weight_K.compact and weight_K.places is self.places
            weight_K = weight_K.own if few else weight_K.written
        if propagated and self._takes_two_products(propagated, hops):
            return self._two_products(weight_K, propagated, hops)
        if weight_K.dim() == 2:
            name = f"{inputs_name(propagated, hops)} of own features"
            return self.cached(name, lambda: self._own_features(propagated, hops)) @ weight_K
        packed = self.cached(
            inputs_name(propagated, hops), lambda: self._packed_features(propagated, hops)
        )
        if self.shared:
            return same_features_times(packed, weight_K)
        return features_times(packed, weight_K, self.sizes)

    def _packed_features(self, propagated: str, hops: int) -> Sparse | Tensor:
        x_K = self.propagated_K(propagated, hops)
        return pack_features(x_K[:1] if self.shared else x_K, self.dtype)

    def _own_features(self, propagated: str, hops: int) -> Sparse:
        return own_features(self.propagated_K(propagated, hops), self.places, self.dtype)

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
        symmetric = name in ("gcn", "sum") and all(g.symmetric for g in self._graphs)
        return Sparse(block_diagonal(self.operators(name)), self.dtype, symmetric)

    def operator_at(self, name: str, rows: Tensor) -> Sparse:
        return self.operator(name).at(rows)


def own_features(x_K: Sequence[Features], places: Places | None, dtype: torch.dtype) -> Sparse:
    """Block-diagonal features without the columns that are a client's not."""
    assert places is not None
    blocks = [sparse.csr_array(x)[:, own] for x, own in zip(x_K, places.columns_K, strict=True)]
    return Sparse(block_diagonal(blocks), dtype)


def name_of(make: Make[T], propagated: str, hops: int, dtype: torch.dtype) -> str:
    """Under which what is made of propagated features is kept with a graph."""
    return f"{make} of {inputs_name(propagated, hops)} as {dtype} on {torch.get_default_device()}"
