"""Which nodes train, validate and test."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from atoll.errors import AtollError, unknown
from atoll.graph import Graph, node_mask

Kind = Literal["random", "per-class", "public"]


@dataclass(frozen=True, kw_only=True)
class Split:
    """How the labelled nodes of the whole graph are divided, before it is partitioned.

    ``kind`` is one of

    - ``random``: ``train``, ``val`` and ``test`` are drawn uniformly. The default, 20/40/40, is
      what FED-PUB's code does (its text says 35 % for validation and test); it takes 5 % of
      ogbn-arxiv for training.
    - ``per-class``: ``per_class`` nodes of every class train; ``val`` and ``test`` are drawn
      uniformly from the rest. Planetoid's own split has 20 a class, 500 and 1,000; GraphFL takes
      80 a class and 1,000 or 10,000 to test.
    - ``public``: the masks that were published with the dataset; nothing is drawn.

    A size below 1 is a fraction of the nodes that are drawn from (all labelled ones, or the rest
    after ``per_class``); from 1 on it is a number of nodes.
    """

    kind: Kind = "random"
    train: float = 0.2
    val: float = 0.4
    test: float = 0.4
    per_class: int = 20

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise unknown("value of split.kind:", self.kind, get_args(Kind))
        if self.kind == "per-class" and self.per_class < 1:
            raise AtollError(f"split.per_class is {self.per_class}; there must be at least 1.")
        sizes = self._sizes()
        for part, size in sizes.items():
            if not (0 < size < 1 or (size >= 1 and float(size).is_integer())):
                raise AtollError(
                    f"split.{part} is {size:g}; it must be a fraction between 0 and 1, or a whole "
                    f"number of nodes."
                )
        total = sum(size for size in sizes.values() if size < 1)
        if total > 1 + 1e-9:
            raise AtollError(f"split.{_listed(sizes)} sum to {total:g}; they may sum to 1 at most.")

    def apply(self, graph: Graph, rng: np.random.Generator) -> Graph:
        if self.kind == "public":
            return _published(graph)
        labelled = np.flatnonzero(graph.y >= 0)
        if self.kind == "random":
            return _with_parts(graph, self._drawn(graph, labelled, rng))
        train = self._per_class(graph, rng)
        rest = np.setdiff1d(labelled, train, assume_unique=True)
        return _with_parts(graph, {"train": train, **self._drawn(graph, rest, rng)})

    def _sizes(self) -> dict[str, float]:
        """The parts that are drawn uniformly."""
        drawn = {"random": ("train", "val", "test"), "per-class": ("val", "test"), "public": ()}
        return {part: getattr(self, part) for part in drawn[self.kind]}

    def _drawn(
        self, graph: Graph, nodes: np.ndarray, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        sizes = self._sizes()
        counts = [round(s * len(nodes)) if s < 1 else round(s) for s in sizes.values()]
        # Fractions alone never ask for too much, but rounding may, by a node.
        if any(s >= 1 for s in sizes.values()) and sum(counts) > len(nodes):
            raise AtollError(
                f"split.{_listed(sizes)} ask for {sum(counts)} nodes, but {graph.name} has "
                f"{len(nodes)} labelled ones to draw them from; ask for fewer."
            )
        pieces = np.split(rng.permutation(nodes), np.cumsum(counts))
        return dict(zip(sizes, pieces, strict=False))

    def _per_class(self, graph: Graph, rng: np.random.Generator) -> np.ndarray:
        chosen = []
        for label in range(graph.classes):
            members = np.flatnonzero(graph.y == label)
            if 0 < len(members) < self.per_class:
                raise AtollError(
                    f"class {label} of {graph.name} has {len(members)} nodes, fewer than "
                    f"split.per_class {self.per_class}; ask for fewer."
                )
            chosen.append(rng.permutation(members)[: self.per_class])
        return np.concatenate(chosen)


def _published(graph: Graph) -> Graph:
    for part in ("train", "val", "test"):
        if not getattr(graph, part).any():
            raise AtollError(
                f"{graph.name} has no published {part} nodes; choose the split 'random' or "
                f"'per-class'."
            )
    return graph


def _with_parts(graph: Graph, parts: dict[str, np.ndarray]) -> Graph:
    masks = {part: node_mask(parts[part], graph.nodes) for part in ("train", "val", "test")}
    return replace(graph, **masks)  # type: ignore[arg-type]


def _listed(sizes: dict[str, float]) -> str:
    *first, last = sizes
    return f"{', '.join(first)} and {last}"
