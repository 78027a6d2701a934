"""Collections of small graphs, one per client: what is read out of nodes, graph by graph."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from atoll.cached import Cached
from atoll.device import of_numpy
from atoll.graph import Graph, first_nodes, renumbered_from_0
from atoll.ops.sparse import Sparse


class Collection(Cached):
    """The small graphs of K clients, G in all: client by client, ``sizes[k]`` of each.

    ``of [N]`` says which of them each row belongs to, ``batch [G]`` whose they are.
    """

    def __init__(self, of: np.ndarray, sizes: Sequence[int]) -> None:
        super().__init__()
        self.k = len(sizes)
        self.sizes = tuple(sizes)
        self._of = of
        self.of = of_numpy(of)
        self.batch = torch.repeat_interleave(torch.arange(self.k), torch.tensor(self.sizes))

    @cached_property
    def size(self) -> Tensor:
        """How many nodes each small graph has ``[G]``."""
        return torch.bincount(self.of, minlength=len(self.batch))

    def members(self, dtype: torch.dtype) -> Sparse:
        """The matrix that adds up each small graph's rows ``[G, N]``."""

        def build() -> Sparse:
            n = len(self._of)
            start = np.append(first_nodes(self._of), n)
            ones, shape = np.ones(n), (len(self.batch), n)
            return Sparse(sparse.csr_array((ones, np.arange(n), start), shape=shape), dtype)

        return self.cached(f"members as {dtype}", build)

    def part(self, rows: np.ndarray, sizes: Sequence[int]) -> Collection:
        """Some of the small graphs, by their rows, with all nodes of one before those of the next;
        ``sizes`` of each client."""
        return Collection(renumbered_from_0(self._of[rows]), sizes)


def collection_of(graphs: Sequence[Graph]) -> Collection | None:
    """None unless all clients hold collections of small graphs."""
    graph_of_K = [g.graph_of for g in graphs if g.graph_of is not None]
    if len(graph_of_K) < len(graphs):
        return None
    sizes = [len(first_nodes(of)) for of in graph_of_K]
    shift = np.cumsum([0, *sizes[:-1]])
    return Collection(
        np.concatenate([of + s for of, s in zip(graph_of_K, shift, strict=True)]), sizes
    )
