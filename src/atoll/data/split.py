"""Which nodes train, validate and test."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from atoll.errors import AtollError, unknown
from atoll.graph import SPLITS, Graph, node_mask
from atoll.options import check_options, option

Kind = Literal["random", "per-class", "public"]
_SIZE = "a fraction below 1, or a whole number of nodes"


@dataclass(frozen=True, kw_only=True)
class Split:
    """How the labelled nodes of the whole graph are divided, before it is partitioned.

    ``kind`` is one of

    - ``random``: ``train``, ``val`` and ``test`` are drawn uniformly. The default, 20/40/40, is
      what FED-PUB's code does (its text says 35 % for validation and test); it takes 5 % of
      ogbn-arxiv for training.
    - ``per-class``: ``per_class`` nodes of every class train; ``val`` and ``test`` are drawn
      uniformly from the rest. Planetoid's own split has 20 per class, 500 and 1,000. With
      ``per_class_val`` above 0, as many nodes of every class validate, in place of ``val``: GraphFL
      takes 40 and 40 per class and 1,000 or 10,000 to test.
    - ``public``: the masks that were published with the dataset; nothing is drawn.

    ``rehearsal`` above 0 is for choosing settings without using the test nodes: as many further
    nodes, drawn from those in no other part, are tested on in their place. Training, validation
    and test nodes are drawn as ever, so the former are those of the run that is rehearsed.

    A size below 1 is a fraction of the nodes that are drawn from (all labelled ones, or the rest
    after ``per_class``); from 1 on it is a number of nodes.
    """

    kind: Kind = "random"
    train: float = option(0.2, above=0, why=_SIZE)
    val: float = option(0.4, above=0, why=_SIZE)
    test: float = option(0.4, above=0, why=_SIZE)
    per_class: int = option(20, at_least=1)
    per_class_val: int = option(0, at_least=0)
    rehearsal: int = option(0, at_least=0)

    def __post_init__(self) -> None:
        check_options("split", self)
        if self.kind not in get_args(Kind):
            raise unknown("value of split.kind:", self.kind, get_args(Kind))
        if self.rehearsal and self.kind == "public":
            raise AtollError(
                "split.rehearsal draws nodes, and the split 'public' draws none; choose another."
            )
        sizes = self._sizes()
        for part, size in sizes.items():
            if size >= 1 and not float(size).is_integer():
                raise AtollError(f"split.{part} is {size:g}; it must be {_SIZE}.")
        total = sum(size for size in sizes.values() if size < 1)
        if total > 1 + 1e-9:
            raise AtollError(f"split.{_listed(sizes)} sum to {total:g}; they may sum to 1 at most.")

    def apply(self, graph: Graph, rng: np.random.Generator) -> Graph:
        if self.kind == "public":
            return _published(graph)
        labelled = np.flatnonzero(graph.y >= 0)
        parts = {} if self.kind == "random" else self._per_class(graph, rng)
        parts |= self._drawn(graph, _without(labelled, parts), rng)
        if self.rehearsal:
            spare = _without(labelled, parts)
            if len(spare) < self.rehearsal:
                raise AtollError(
                    f"split.rehearsal asks for {self.rehearsal} nodes, but {graph.name} has "
                    f"{len(spare)} labelled ones in no other part; ask for fewer."
                )
            parts["test"] = rng.permutation(spare)[: self.rehearsal]
        return _with_parts(graph, parts)

    def _sizes(self) -> dict[str, float]:
        """The parts that are drawn uniformly."""
        by_class = ("test",) if self.per_class_val else ("val", "test")
        drawn = {"random": SPLITS, "per-class": by_class, "public": ()}
        return {part: getattr(self, part) for part in drawn[self.kind]}

    def _drawn(
        self, graph: Graph, nodes: np.ndarray, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        sizes = self._sizes()
        counts = [round(s * len(nodes)) if s < 1 else round(s) for s in sizes.values()]
        # Fractions alone never take too many nodes, but rounding may take one too many.
        if any(s >= 1 for s in sizes.values()) and sum(counts) > len(nodes):
            raise AtollError(
                f"split.{_listed(sizes)} ask for {sum(counts)} nodes, but {graph.name} has "
                f"{len(nodes)} labelled ones to draw them from; ask for fewer."
            )
        pieces = np.split(rng.permutation(nodes), np.cumsum(counts))
        return dict(zip(sizes, pieces, strict=False))

    def _per_class(self, graph: Graph, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """The parts that have a fixed number of nodes of every class."""
        wanted = self.per_class + self.per_class_val
        chosen = []
        for label in range(graph.classes):
            members = np.flatnonzero(graph.y == label)
            if 0 < len(members) < wanted:
                what = (
                    "split.per_class and per_class_val" if self.per_class_val else "split.per_class"
                )
                raise AtollError(
                    f"class {label} of {graph.name} has {len(members)} nodes, fewer than {what} "
                    f"{wanted}; ask for fewer."
                )
            chosen.append(rng.permutation(members)[:wanted])
        parts = {"train": np.concatenate([nodes[: self.per_class] for nodes in chosen])}
        if self.per_class_val:
            parts["val"] = np.concatenate([nodes[self.per_class :] for nodes in chosen])
        return parts


def _without(nodes: np.ndarray, parts: dict[str, np.ndarray]) -> np.ndarray:
    taken = [np.zeros(0, dtype=nodes.dtype), *parts.values()]
    return np.setdiff1d(nodes, np.concatenate(taken), assume_unique=True)


def _published(graph: Graph) -> Graph:
    for part in SPLITS:
        if not getattr(graph, part).any():
            raise AtollError(
                f"{graph.name} has no published {part} nodes; choose the split 'random' or "
                f"'per-class'."
            )
    return graph


def _with_parts(graph: Graph, parts: dict[str, np.ndarray]) -> Graph:
    masks = {part: node_mask(parts[part], graph.nodes) for part in SPLITS}
    return replace(graph, **masks)  # type: ignore[arg-type]


def _listed(sizes: dict[str, float]) -> str:
    *first, last = sizes
    return f"{', '.join(first)} and {last}" if first else last
