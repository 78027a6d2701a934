"""What first layers and propagation operators are computed from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import ClassVar, NamedTuple, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from atoll.cached import Cached
from atoll.device import of_numpy
from atoll.graph import Graph


class Operator(Protocol):
    """A constant matrix ``[N, M]`` and its transpose."""

    @property
    def t(self) -> Self: ...

    def __matmul__(self, dense: Tensor) -> Tensor: ...


class Neighbourhood(NamedTuple):
    """Inputs of some nodes only, and which rows of each client's these are."""

    inputs: Inputs
    rows_K: Sequence[np.ndarray]


class Inputs(Cached, ABC):
    """What the first layers and the propagation operators of K clients are computed from.

    Rows ``[N]`` stand for nodes, client by client, ``sizes[k]`` of them for the client at position
    k. The nodes of a client's own graph come first; rows after them stand for nodes that no task
    knows of: they have no label and belong to no split.

    Inputs know neither labels nor splits, so cohorts that differ in these share their inputs.
    """

    # Whether operators can be had at some rows alone (:meth:`operator_at`).
    by_rows: ClassVar[bool] = True
    # Whether K > 1 clients hold the same features and edges, which are then kept once.
    shared: bool = False

    def __init__(self, sizes: Sequence[int], dtype: torch.dtype) -> None:
        super().__init__()
        self.sizes = tuple(sizes)
        self.k = len(self.sizes)
        self.dtype = dtype

    @property
    @abstractmethod
    def graphs(self) -> Sequence[Graph]:
        """Each client's rows as a graph, for models that look at one client after the other."""

    @abstractmethod
    def linear(self, weight_K: Tensor, propagated: str = "", hops: int = 1) -> Tensor:
        """Features times weights, ``[K, f, h] -> [N, h]``.

        ``propagated`` names an operator P: the features are then ``P^hops X``.
        """

    @abstractmethod
    def operator(self, name: str) -> Operator:
        """A block-diagonal propagation matrix ``[N, N]``: ``gcn``, ``mean``, ``sum`` or ``sum and
        own``."""

    def operator_at(self, name: str, rows: Tensor) -> Operator:
        """Some rows ``[R]`` of an operator, ``[R, N]``."""
        raise TypeError(f"{type(self).__name__} has no operator at some rows alone")

    @cached_property
    def edges(self) -> Tensor:
        """All clients' edges ``[2, E]`` in row numbers."""
        return self.rows_of([g.edges for g in self.graphs])

    def by_graph(self, key: str, dtype: torch.dtype, make: Callable[[Graph], np.ndarray]) -> Tensor:
        """What is made of each client's graph, one row per node, packed ``[N, ...]``.

        Where clients hold small graphs it must follow from each of these by itself.
        """

        def pack() -> Tensor:
            return of_numpy(np.concatenate([make(graph) for graph in self.graphs])).to(dtype)

        return self.cached(f"{key} as {dtype}", pack)

    def k_hop(self, reach: int, inside_K: Sequence[np.ndarray]) -> Neighbourhood | None:
        """The inputs of the nodes within ``reach`` hops of those ``inside``, booleans per client.

        Operators and propagated features are those of the whole graph, restricted. None where all
        rows remain.
        """
        return None

    def take(self, positions: Sequence[int]) -> Inputs:
        """The inputs of some clients."""
        raise TypeError(f"{type(self).__name__} can't be taken apart")

    def rows_of(self, nodes_K: Sequence[np.ndarray]) -> Tensor:
        """The clients' own node numbers ``[..., m]``, as row numbers."""
        shift = np.cumsum([0, *self.sizes[:-1]])
        return of_numpy(
            np.concatenate([n + s for n, s in zip(nodes_K, shift, strict=True)], axis=-1)
        )
