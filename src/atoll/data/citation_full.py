"""DBLP and Cora-ML from the full citation graphs."""

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
class CitationFull(PublishedDataset):
    """Papers, citations, words, topics (Bojchevski and Günnemann, 2018).

    ``largest_component`` keeps only the largest connected component, ``binary`` replaces the words'
    published TF-IDF weights by 1, as torch_geometric does, and ``normalise`` makes each paper's
    weights sum to one. Features stay sparse.
    """

    largest_component: bool = True
    binary: bool = True
    normalise: bool = True

    def files(self) -> tuple[str, ...]:
        return (f"raw/{self.folder}.npz",)

    def address(self, file: str) -> str:
        from torch_geometric.datasets import CitationFull as Source

        address: str = Source.url.format(Path(file).stem)
        return address

    def read(self, files: Sequence[Path]) -> Graph:
        graph = read_npz(files[0], self.registered_name)
        graph = one_per_word(graph) if self.binary else graph
        return prepared(graph, component=self.largest_component, normalise=self.normalise)


@datasets.register("dblp")
@dataclass(frozen=True, kw_only=True)
class Dblp(CitationFull):
    """17,716 computer-science papers, 52,867 citations, 1,639 words, 4 fields."""

    folder: ClassVar[str] = "dblp"


@datasets.register("cora-ml")
@dataclass(frozen=True, kw_only=True)
class CoraML(CitationFull):
    """2,995 machine-learning papers, 8,158 citations, 2,879 words, 7 topics."""

    folder: ClassVar[str] = "cora_ml"
