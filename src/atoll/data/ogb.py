"""ogbn-arxiv and ogbn-products in the raw layout of the Open Graph Benchmark."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import polars

from atoll.data.base import datasets
from atoll.data.download import download, unpack
from atoll.data.prepare import prepared, with_split
from atoll.data.published import PublishedDataset
from atoll.data.reading import checked_edges, checked_labels, readable
from atoll.graph import Graph, make_graph, node_mask

_ARCHIVES = "https://snap.stanford.edu/ogb/data/nodeproppred"
_RAW = ("raw/edge.csv.gz", "raw/node-feat.csv.gz", "raw/node-label.csv.gz")


@dataclass(frozen=True, kw_only=True)
class OgbNodes(PublishedDataset):
    """A graph of the Open Graph Benchmark (Hu et al., 2020), read from its CSV files.

    Edges are made undirected, as FED-PUB does with ogbn-arxiv. The published split is there as the
    split ``public``. ``largest_component`` keeps only the largest connected component and
    ``normalise`` divides each row by its sum; FED-PUB does neither.
    """

    archive: ClassVar[str]
    published_split: ClassVar[str]
    classes: ClassVar[int]
    largest_component: bool = False
    normalise: bool = False

    def files(self) -> tuple[str, ...]:
        parts = ("train", "valid", "test")
        return _RAW + tuple(f"split/{self.published_split}/{part}.csv.gz" for part in parts)

    def download(self, missing: Sequence[str]) -> None:
        """Fetch the archive and take the raw files out of it; a whole archive is kept till then."""
        archive = self.home() / f"{self.archive}.zip"
        if not archive.is_file():
            download(f"{_ARCHIVES}/{archive.name}", archive, self.registered_name)
        with readable(archive, "an OGB archive"), zipfile.ZipFile(archive) as packed:
            for file in missing:
                unpack(packed, f"{self.archive}/{file}", self.home() / file)
        archive.unlink()

    def read(self, files: Sequence[Path]) -> Graph:
        graph = _read_graph(files, self.classes, self.registered_name)
        masks = [node_mask(_node_numbers(path, graph.nodes), graph.nodes) for path in files[3:]]
        graph = with_split(graph, *masks)
        return prepared(graph, component=self.largest_component, normalise=self.normalise)


@datasets.register("ogbn-arxiv")
@dataclass(frozen=True, kw_only=True)
class Arxiv(OgbNodes):
    """169,343 arXiv papers, 1,157,799 citations, 128 features, 40 subject areas.

    The published split is by time.
    """

    folder: ClassVar[str] = "ogbn_arxiv"
    archive: ClassVar[str] = "arxiv"
    published_split: ClassVar[str] = "time"
    classes: ClassVar[int] = 40


@datasets.register("ogbn-products")
@dataclass(frozen=True, kw_only=True)
class Products(OgbNodes):
    """2,449,029 Amazon products, 61,859,140 joint purchases, 100 features, 47 categories.

    GraphFL calls this graph Amazon2M. The published split is by sales rank.
    """

    folder: ClassVar[str] = "ogbn_products"
    archive: ClassVar[str] = "products"
    published_split: ClassVar[str] = "sales_ranking"
    classes: ClassVar[int] = 47


def _read_graph(files: Sequence[Path], classes: int, name: str) -> Graph:
    edge_file, feature_file, label_file = files[:3]
    with readable(feature_file, "a table of node features"):
        x = np.ascontiguousarray(_numbers(feature_file, polars.Float32()))
    with readable(label_file, "a list of node labels"):
        labels = checked_labels(_numbers(label_file, polars.Int64())[:, 0], len(x))
    with readable(edge_file, "a list of edges"):
        edges = checked_edges(_numbers(edge_file, polars.Int64()).T, len(x))
        return make_graph(x, edges, labels, classes=classes, name=name)


def _node_numbers(path: Path, nodes: int) -> np.ndarray:
    with readable(path, "a list of node numbers"):
        numbers: np.ndarray = _numbers(path, polars.Int64())[:, 0]
        if not (0 <= numbers.min() <= numbers.max() < nodes):
            raise ValueError(f"it names nodes outside 0 to {nodes - 1}")
        return numbers


def _numbers(path: Path, kind: polars.DataType) -> np.ndarray:
    """A CSV file without header, compressed, as one array ``[rows, columns]``."""
    try:
        width = polars.read_csv(path, has_header=False, n_rows=1).width
        schema: Mapping[str, polars.DataType] = {f"column_{i + 1}": kind for i in range(width)}
        table = polars.read_csv(path, has_header=False, schema=schema)
    except polars.exceptions.PolarsError as problem:
        raise ValueError(str(problem)) from problem
    empty = table.null_count().row(0)
    if any(empty):
        column = next(i for i, count in enumerate(empty) if count)
        row = int(table.to_series(column).is_null().arg_max() or 0)
        raise ValueError(f"row {row + 1} has nothing in column {column + 1}")
    return table.to_numpy()
