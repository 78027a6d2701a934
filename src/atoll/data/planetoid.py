"""Cora, CiteSeer and PubMed in the Planetoid layout."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy._core.multiarray import _reconstruct
from scipy import sparse

from atoll.data.base import Dataset, data_root, datasets
from atoll.errors import AtollError
from atoll.graph import Graph, largest_component, make_graph, row_normalised

_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


@dataclass(frozen=True, kw_only=True)
class Planetoid(Dataset):
    """A citation graph (Yang et al., 2016): papers, bags of words, topics.

    ``largest_component`` keeps only the largest connected component and ``normalise`` divides
    each paper's words by their number; FED-PUB does both. Features stay sparse.
    """

    folder: ClassVar[str]
    largest_component: bool = True
    normalise: bool = True

    def load(self) -> Graph:
        graph = read_planetoid(self._raw(), self.folder)
        if self.normalise:
            graph = make_graph(
                row_normalised(graph.x),
                graph.edges,
                graph.y,
                classes=graph.classes,
                name=graph.name,
            )
        return largest_component(graph) if self.largest_component else graph

    def _raw(self) -> Path:
        root, may_download = data_root()
        raw = root / self.folder / "raw"
        missing = [part for part in _PARTS if not _file(raw, self.folder, part).is_file()]
        if missing and may_download:
            download(raw, self.folder)
        elif missing:
            raise AtollError(
                f"{self.folder}: '{_file(raw, self.folder, missing[0])}' is missing; put the "
                f"Planetoid files there, or unset ATOLL_DATA to download them."
            )
        return raw


@datasets.register("cora")
@dataclass(frozen=True, kw_only=True)
class Cora(Planetoid):
    """2,708 machine-learning papers, 5,278 citations, 1,433 words, 7 topics."""

    folder: ClassVar[str] = "Cora"


@datasets.register("citeseer")
@dataclass(frozen=True, kw_only=True)
class CiteSeer(Planetoid):
    """3,327 computer-science papers, 4,552 citations, 3,703 words, 6 topics."""

    folder: ClassVar[str] = "CiteSeer"


@datasets.register("pubmed")
@dataclass(frozen=True, kw_only=True)
class PubMed(Planetoid):
    """19,717 papers on diabetes, 44,324 citations, 500 words (TF-IDF), 3 topics."""

    folder: ClassVar[str] = "PubMed"


def _file(raw: Path, folder: str, part: str) -> Path:
    return raw / f"ind.{folder.lower()}.{part}"


def download(raw: Path, folder: str) -> None:
    """Fetch the raw files from where torch_geometric gets them."""
    from torch_geometric.data import download_url
    from torch_geometric.datasets import Planetoid as Source

    raw.mkdir(parents=True, exist_ok=True)
    for part in _PARTS:
        target = _file(raw, folder, part)
        if target.is_file():
            continue
        try:
            download_url(f"{Source.url}/{target.name}", str(raw), log=False)
        except OSError as problem:
            raise AtollError(
                f"{folder} can't be downloaded ({problem}); check the connection, or put the files "
                f"into a folder and name it in ATOLL_DATA."
            ) from problem


def read_planetoid(raw: Path, folder: str) -> Graph:
    """The graph of the raw files: training rows first, test rows put back in their places."""
    tx, allx, ty, ally = (_load(_file(raw, folder, part)) for part in ("tx", "allx", "ty", "ally"))
    neighbours = _load(_file(raw, folder, "graph"))
    try:
        test = np.loadtxt(_file(raw, folder, "test.index"), dtype=np.int64)
        nodes = max(int(test.max()) + 1, allx.shape[0] + len(test))
        # CiteSeer's test range has gaps: papers without words or label, kept as isolated nodes.
        x = sparse.lil_array((nodes, allx.shape[1]), dtype=np.float32)
        x[: allx.shape[0]] = sparse.csr_array(allx)
        x[test] = sparse.csr_array(tx)
        labels = np.zeros((nodes, ally.shape[1]))
        labels[: ally.shape[0]] = ally
        labels[test] = ty
        edges = np.array([(u, v) for u, around in neighbours.items() for v in around]).T
    except (AttributeError, IndexError, TypeError, ValueError) as problem:
        raise AtollError(
            f"the files in '{raw}' do not fit together as {folder} ({problem}); fetch them anew."
        ) from problem
    return make_graph(
        sparse.csr_array(x), edges, labels.argmax(axis=1), classes=ally.shape[1], name=folder
    )


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
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None


def _load(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            return _ArraysOnly(file, encoding="latin1").load()
    except (
        pickle.UnpicklingError,
        EOFError,
        ValueError,
        IndexError,
        KeyError,
        TypeError,
    ) as problem:
        raise AtollError(
            f"'{path}' is not a Planetoid file of arrays ({problem}); fetch it anew."
        ) from problem
