"""Coauthor CS and Physics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from atoll.data.base import datasets
from atoll.data.prepare import one_per_word, prepared
from atoll.data.published import PublishedDataset
from atoll.data.published_npz import read_npz
from atoll.graph import Graph


@dataclass(frozen=True, kw_only=True)
class Coauthor(PublishedDataset):
    """Authors who wrote a paper together, their papers' keywords, fields (Shchur et al., 2018).

    ``largest_component`` keeps only the largest connected component (both graphs are connected),
    ``binary`` counts a keyword once however often an author used it, as torch_geometric does, and
    ``normalise`` divides each author's keywords by their number. Features stay sparse.
    """

    file: ClassVar[str]
    largest_component: bool = True
    binary: bool = True
    normalise: bool = True

    def files(self) -> tuple[str, ...]:
        return (f"raw/{self.file}",)

    def address(self, file: str) -> str:
        from torch_geometric.datasets import Coauthor as Source

        return f"{Source.url}{Path(file).name}"

    def read(self, files: Sequence[Path]) -> Graph:
        graph = read_npz(files[0], self.registered_name)
        graph = one_per_word(graph) if self.binary else graph
        return prepared(graph, component=self.largest_component, normalise=self.normalise)


@datasets.register("coauthor-cs", "cs")
@dataclass(frozen=True, kw_only=True)
class CoauthorCS(Coauthor):
    """18,333 computer scientists, 81,894 coauthorships, 6,805 keywords, 15 fields."""

    folder: ClassVar[str] = "CS"
    file: ClassVar[str] = "ms_academic_cs.npz"


@datasets.register("coauthor-physics", "physics")
@dataclass(frozen=True, kw_only=True)
class CoauthorPhysics(Coauthor):
    """34,493 physicists, 247,962 coauthorships, 8,415 keywords, 5 fields."""

    folder: ClassVar[str] = "Physics"
    file: ClassVar[str] = "ms_academic_phy.npz"
