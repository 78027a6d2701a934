"""Parts of many graphs, each made when somebody looks at it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

import numpy as np

from atoll.graph import Graph


class Parts(Sequence[Graph]):
    """``make(graph, nodes)`` of each client, made once and only if it is asked for."""

    def __init__(
        self,
        graphs: Sequence[Graph],
        nodes_K: Sequence[np.ndarray],
        make: Callable[[Graph, np.ndarray], Graph],
    ) -> None:
        self.whole, self._nodes_K, self._make = graphs, nodes_K, make
        self._made: dict[int, Graph] = {}

    def __len__(self) -> int:
        return len(self._nodes_K)

    @overload
    def __getitem__(self, at: int) -> Graph: ...
    @overload
    def __getitem__(self, at: slice) -> list[Graph]: ...
    def __getitem__(self, at: int | slice) -> Graph | list[Graph]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        place = range(len(self))[at]
        if place not in self._made:
            self._made[place] = self._make(self.whole[place], self._nodes_K[place])
        return self._made[place]


def split_rows(rows: np.ndarray, size_K: np.ndarray) -> list[np.ndarray]:
    """Rows of K clients one after the other, as one array per client."""
    ends = np.cumsum(size_K).tolist()
    return [rows[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
