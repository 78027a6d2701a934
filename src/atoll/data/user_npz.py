"""The user's own graph as numpy arrays in one file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

from atoll.data.base import Dataset, datasets
from atoll.data.published_npz import CSR
from atoll.data.reading import DAMAGE, checked_csr, existing_file, first_line
from atoll.data.user_arrays import Named, checked_graph
from atoll.errors import AtollError
from atoll.graph import SPLITS, Graph
from atoll.parquet import memory


@datasets.register("npz")
@dataclass(frozen=True, kw_only=True)
class Npz(Dataset):
    """Your own graph: numpy arrays in an .npz file (x, edge_index, y, ...), never pickles.

    Keys of ``path``: features ``x [n, f]``, or ``attr_data``, ``attr_indices``, ``attr_indptr`` and
    ``attr_shape`` in CSR form, which stay sparse; edges ``edge_index`` or ``edges [2, e]``, or
    ``adj_*`` in CSR form; labels ``y`` or ``labels [n]`` (numbers from 0 with -1 for unknown, or
    text). May be there: ``edge_weight [e]`` (or ``adj_data``, where it is not all ones),
    ``ids [n]``, ``owner [n]`` for the partition ``natural``,
    ``class_names [c]``, and ``train_mask``, ``val_mask``, ``test_mask [n]``. Edges count both ways
    unless ``directed``.
    """

    path: str = ""
    directed: bool = False

    def load(self) -> Graph:
        with _opened(self.path) as opened:
            return self._graph(f"'{self.path}'", _Arrays(f"'{self.path}'", opened))

    def _graph(self, where: str, arrays: _Arrays) -> Graph:
        names = arrays.get("class_names", np.zeros(0, dtype=str))
        x = _features(where, arrays)
        edges, weights = _edges(where, arrays)
        masks = {split: arrays.get(f"{split}_mask") for split in SPLITS}
        return checked_graph(
            where,
            x=x,
            edges=edges,
            weights=weights,
            labels=_one_of(where, arrays, "labels", "y", "labels"),
            name=Path(self.path).stem,
            ids=arrays.get("ids"),
            owner=arrays.get("owner"),
            masks={split: mask for split, mask in masks.items() if mask is not None},
            class_names=tuple(map(str, names.reshape(-1).tolist())),
            directed=self.directed,
        )


class _Arrays(Mapping[str, np.ndarray]):
    """The arrays of an .npz file, each read and checked when it is needed."""

    def __init__(self, where: str, opened: np.lib.npyio.NpzFile) -> None:
        self.where, self.opened = where, opened

    def __getitem__(self, key: str) -> np.ndarray:
        if key not in self.opened.files:
            raise KeyError(key)
        try:
            array: np.ndarray = self._unless_too_large(key)[key]
        except DAMAGE as problem:
            raise AtollError(
                f"{self.where}: '{key}' is damaged or holds Python objects, which are not loaded "
                f"({first_line(problem)}); save it as plain numbers or text."
            ) from problem
        return array

    def _unless_too_large(self, key: str) -> np.lib.npyio.NpzFile:
        """Equal numbers take next to no room in such a file, and all of it in memory."""
        assert self.opened.zip is not None
        entries = self.opened.zip.infolist()
        size = max(e.file_size for e in entries if e.filename in (f"{key}.npy", key))
        if size > memory() / 2:
            raise AtollError(
                f"{self.where}: '{key}' has {size:,} bytes, more than half of this machine's "
                f"memory; use a larger machine, or fewer features."
            )
        return self.opened

    def __iter__(self) -> Iterator[str]:
        return iter(self.opened.files)

    def __len__(self) -> int:
        return len(self.opened.files)


def _opened(path: str) -> np.lib.npyio.NpzFile:
    file = existing_file(path, "path", ".npz", "your graph")
    try:
        opened: np.lib.npyio.NpzFile | np.ndarray = np.load(file, allow_pickle=False)
    except DAMAGE as problem:
        raise AtollError(
            f"'{file}' is not an .npz file of arrays; write it with numpy.savez_compressed."
        ) from problem
    if isinstance(opened, np.ndarray):
        raise AtollError(
            f"'{file}' holds a single array; write all arrays into one file with "
            f"numpy.savez_compressed."
        )
    return opened


def _one_of(where: str, arrays: _Arrays, what: str, *keys: str) -> tuple[str, np.ndarray]:
    found = [key for key in keys if key in arrays]
    if len(found) > 1:
        raise AtollError(f"{where} has both '{found[0]}' and '{found[1]}'; keep one of them.")
    if not found:
        wanted = " or ".join(f"'{key}'" for key in keys)
        raise AtollError(
            f"{where} has no {what}: add {wanted} (there is: {', '.join(sorted(arrays))})."
        )
    return found[0], arrays[found[0]]


def _features(where: str, arrays: _Arrays) -> tuple[str, np.ndarray | sparse.csr_array]:
    if "attr_data" in arrays and "x" not in arrays:
        return "attr", _csr(where, arrays, "attr")
    return _one_of(where, arrays, "features", "x", "attr_data")


def _edges(where: str, arrays: _Arrays) -> tuple[Named, Named | None]:
    """The edges, and their weights if there are any."""
    given = "edge_weight" in arrays
    if "adj_indices" not in arrays or "edge_index" in arrays or "edges" in arrays:
        edges = _one_of(where, arrays, "edges", "edge_index", "edges", "adj_indices")
        return edges, ("edge_weight", arrays["edge_weight"]) if given else None
    if given:
        raise AtollError(f"{where} has 'edge_weight', but its edges are adj_*; put it in adj_data.")
    adjacency = _csr(where, arrays, "adj")
    if adjacency.shape[0] != adjacency.shape[1]:
        raise AtollError(
            f"{where}: adj has the shape {adjacency.shape}; it must have a row and a column for "
            f"each node."
        )
    entries = sparse.coo_array(adjacency)
    edges = "adj", np.stack(entries.coords).astype(np.int64)
    return edges, None if (entries.data == 1).all() else ("adj_data", entries.data)


def _csr(where: str, arrays: _Arrays, prefix: str) -> sparse.csr_array:
    for part in CSR:
        if f"{prefix}_{part}" not in arrays and (prefix, part) != ("adj", "data"):
            raise AtollError(
                f"{where} has no '{prefix}_{part}'; a matrix in CSR form needs {prefix}_data, "
                f"{prefix}_indices, {prefix}_indptr and {prefix}_shape."
            )
    indices, indptr, shape = (arrays[f"{prefix}_{part}"] for part in CSR[1:])
    data = arrays[f"{prefix}_data"] if f"{prefix}_data" in arrays else np.ones(len(indices))
    try:
        matrix = checked_csr((data, indices, indptr), shape)
        matrix.eliminate_zeros()
    except (ValueError, TypeError, IndexError) as problem:
        raise AtollError(
            f"{where}: {prefix}_data, {prefix}_indices, {prefix}_indptr and {prefix}_shape do not "
            f"fit together as a CSR matrix ({first_line(problem)}); write them anew."
        ) from problem
    return matrix
