"""Which of its public nodes a client shares: the paper's "preferred information"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.device import of_numpy
from atoll.graph import Graph
from atoll.leaves import Like, Ragged, Rows, RowsLike

Preference = Literal["any", "high-degree", "low-degree"]


@dataclass(frozen=True)
class Choice:
    """A client's choice among its public nodes.

    ``only`` these entities, by id, if any are named; of those ``at_most`` so many (0: all), drawn
    at random or the ones with the most or the fewest neighbours at the client itself. Equal degrees
    are ordered at random.
    """

    at_most: int
    prefer: Preference
    only: tuple[str, ...]

    @property
    def leaves_out(self) -> bool:
        return bool(self.at_most or self.only)

    def of(self, graph: Graph, rng: np.random.Generator) -> np.ndarray:
        """Positions among the client's anchors, ascending."""
        at = np.arange(len(graph.anchors))
        if self.only:
            named = np.isin(graph.ids[graph.anchors].astype(str), np.array(self.only))
            at = at[named]
        if not self.at_most or len(at) <= self.at_most:
            return at
        at = rng.permutation(at)
        if self.prefer != "any":
            degree = np.diff(graph.adjacency.indptr)[graph.anchors[at]]
            at = at[np.argsort(-degree if self.prefer == "high-degree" else degree, kind="stable")]
        return np.sort(at[: self.at_most])


def chosen_at(choice: Choice, cohort: Cohort, streams: Sequence[np.random.Generator]) -> Ragged:
    """Every client's choice, as positions among its anchors."""
    pairs = zip(cohort.graphs, streams, strict=True)
    return Ragged.of([of_numpy(choice.of(graph, rng).astype(np.int32)) for graph, rng in pairs])


def rows_of(cohort: Cohort, at: Ragged) -> Tensor:
    """The cohort's rows of the nodes at some positions among each client's anchors."""
    blocks = zip(cohort.anchors.blocks(), at.blocks(), strict=True)
    return torch.cat([rows[positions.long()] for rows, positions in blocks])


@dataclass(frozen=True, eq=False)
class ChosenLike(Like):
    """Some rows of each client's own table of anchors, whose length the server knows."""

    row: Tensor
    lengths: Mapping[int, int]

    @property
    def largest(self) -> int:
        return RowsLike(self.row, max(self.lengths.values(), default=0)).largest

    def misfits(self, leaf: Any, clients: Sequence[int]) -> dict[int, str]:
        bad = RowsLike(self.row, max(self.lengths.values(), default=0)).misfits(leaf, clients)
        if isinstance(leaf, Rows) and len(leaf.at.sizes) == len(clients):
            for i, (client, at) in enumerate(zip(clients, leaf.at.blocks(), strict=True)):
                if len(at) and int(at[-1]) >= self.lengths[client]:
                    bad.setdefault(i, f"names row {int(at[-1])} of {self.lengths[client]} anchors")
        return bad
