"""Amazon Computers and Photo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from atoll.data.base import datasets
from atoll.data.prepare import prepared
from atoll.data.published import PublishedDataset
from atoll.data.published_npz import read_npz
from atoll.graph import Graph


@dataclass(frozen=True, kw_only=True)
class Amazon(PublishedDataset):
    """Goods often bought together, words of their reviews, categories (Shchur et al., 2018).

    ``largest_component`` keeps only the largest connected component and ``normalise`` divides
    each product's words by their number; FED-PUB does both.
    """

    largest_component: bool = True
    normalise: bool = True

    def files(self) -> tuple[str, ...]:
        return (f"raw/amazon_electronics_{self.folder.lower()}.npz",)

    def address(self, file: str) -> str:
        from torch_geometric.datasets import Amazon as Source

        return f"{Source.url}{Path(file).name}"

    def read(self, files: Sequence[Path]) -> Graph:
        graph = read_npz(files[0], self.registered_name)
        return prepared(graph, component=self.largest_component, normalise=self.normalise)


@datasets.register("amazon-computers", "computers")
@dataclass(frozen=True, kw_only=True)
class Computers(Amazon):
    """13,752 computer goods on Amazon, 245,861 joint purchases, 767 words, 10 categories."""

    folder: ClassVar[str] = "Computers"


@datasets.register("amazon-photo", "photo")
@dataclass(frozen=True, kw_only=True)
class Photo(Amazon):
    """7,650 photographic goods on Amazon, 119,081 joint purchases, 745 words, 8 categories."""

    folder: ClassVar[str] = "Photo"
