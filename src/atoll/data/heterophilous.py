"""Tolokers, from the heterophilous graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from atoll.data.base import datasets
from atoll.data.prepare import prepared, with_split
from atoll.data.published import PublishedDataset
from atoll.data.published_npz import read_arrays
from atoll.data.reading import checked_edges, checked_labels, compact, readable
from atoll.graph import Graph, make_graph
from atoll.options import option


@datasets.register("tolokers")
@dataclass(frozen=True, kw_only=True)
class Tolokers(PublishedDataset):
    """11,758 crowd workers, 519,000 shared tasks, 10 features, banned or not.

    From Platonov et al. (2023). ``split`` chooses among the 10 published ones (0 to 9; 50/25/25)
    for the split ``public``; ``largest_component`` keeps only the largest connected component (the
    graph is connected).
    """

    folder: ClassVar[str] = "tolokers"
    split: int = option(0, at_least=0, at_most=9, why="10 splits were published")
    largest_component: bool = False

    def files(self) -> tuple[str, ...]:
        return ("raw/tolokers.npz",)

    def address(self, file: str) -> str:
        from torch_geometric.datasets import HeterophilousGraphDataset as Source

        return f"{Source.url}/{Path(file).name}"

    def read(self, files: Sequence[Path]) -> Graph:
        with readable(files[0], "a heterophilous graph"):
            features, labels, pairs, *masks = read_arrays(
                files[0],
                *("node_features", "node_labels", "edges"),
                *("train_masks", "val_masks", "test_masks"),
            )
            x = compact(features)
            edges = checked_edges(pairs.T, x.shape[0])
            labels = checked_labels(labels, x.shape[0])
            graph = make_graph(x, edges, labels, name=self.registered_name)
            graph = with_split(graph, *(published[self.split] for published in masks))
        return prepared(graph, component=self.largest_component)
