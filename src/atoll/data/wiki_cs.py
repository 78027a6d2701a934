"""Wiki-CS."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from atoll.data.base import datasets
from atoll.data.prepare import prepared, with_split
from atoll.data.published import PublishedDataset
from atoll.data.reading import checked_edges, checked_labels, compact, readable
from atoll.graph import Graph, make_graph
from atoll.options import option


@datasets.register("wiki-cs")
@dataclass(frozen=True, kw_only=True)
class WikiCS(PublishedDataset):
    """11,701 Wikipedia articles on computer science, 216,123 links, 300 features, 10 branches.

    Features are mean GloVe vectors of the articles' words (Mernyei and Cangea, 2020). ``split``
    chooses among the 20 published ones (0 to 19; the half that tests is the same in all) for the
    split ``public``. ``largest_component`` keeps only the largest connected component;
    ``normalise`` divides each row by its sum, which is not meant for such vectors.
    """

    folder: ClassVar[str] = "WikiCS"
    split: int = option(0, at_least=0, at_most=19, why="20 splits were published")
    largest_component: bool = False
    normalise: bool = False

    def files(self) -> tuple[str, ...]:
        return ("raw/data.json",)

    def address(self, file: str) -> str:
        from torch_geometric.datasets import WikiCS as Source

        return f"{Source.url}/{Path(file).name}"

    def read(self, files: Sequence[Path]) -> Graph:
        with readable(files[0], "Wiki-CS"):
            stored = json.loads(files[0].read_bytes())
            graph = _graph(stored, self.registered_name)
            graph = with_split(
                graph,
                stored["train_masks"][self.split],
                stored["val_masks"][self.split],
                stored["test_mask"],
            )
        return prepared(graph, component=self.largest_component, normalise=self.normalise)


def _graph(stored: dict[str, Any], name: str) -> Graph:
    x = compact(np.array(stored["features"], dtype=np.float32))
    links = stored["links"]
    sources = np.repeat(np.arange(len(links)), [len(linked) for linked in links])
    targets = np.array([target for linked in links for target in linked], dtype=np.int64)
    edges = checked_edges(np.stack([sources, targets]), x.shape[0])
    return make_graph(x, edges, checked_labels(np.array(stored["labels"]), x.shape[0]), name=name)
