"""Which nodes train, validate and test."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from atoll.errors import AtollError
from atoll.graph import Graph


@dataclass(frozen=True, kw_only=True)
class Split:
    """A uniform random split of the whole graph, drawn before it is partitioned.

    Fractions of the labelled nodes. The default is what FED-PUB's code does (its text says 35 %
    for validation and test).
    """

    train: float = 0.2
    val: float = 0.4
    test: float = 0.4

    def __post_init__(self) -> None:
        for part in ("train", "val", "test"):
            if not 0 < getattr(self, part) < 1:
                raise AtollError(
                    f"split.{part} is {getattr(self, part)}; it must be between 0 and 1."
                )
        if self.train + self.val + self.test > 1 + 1e-9:
            raise AtollError(
                f"split.train, val and test sum to {self.train + self.val + self.test:g}; they may "
                f"sum to 1 at most."
            )

    def apply(self, graph: Graph, rng: np.random.Generator) -> Graph:
        labelled = rng.permutation(np.flatnonzero(graph.y >= 0))
        ends = np.cumsum([round(len(labelled) * f) for f in (self.train, self.val, self.test)])
        masks = []
        for nodes in np.split(labelled, ends)[:3]:
            mask = np.zeros(graph.nodes, dtype=bool)
            mask[nodes] = True
            masks.append(mask)
        train, val, test = masks
        return replace(graph, train=train, val=val, test=test)
