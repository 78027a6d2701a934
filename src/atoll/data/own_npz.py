"""The user's own graph as numpy arrays in one file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

from atoll.data.arrays import (
    assemble,
    checked_edges,
    checked_features,
    checked_ids,
    checked_labels,
    checked_mask,
    class_count,
    owner_holdings,
)
from atoll.data.base import Dataset, datasets
from atoll.data.reading import DAMAGE
from atoll.errors import AtollError
from atoll.graph import SPLITS, Graph

_CSR = ("data", "indices", "indptr", "shape")


@datasets.register("npz")
@dataclass(frozen=True, kw_only=True)
class Npz(Dataset):
    """Your own graph: numpy arrays in an .npz file (x, edge_index, y, ...), never pickles.

    Keys of ``path``: features ``x [n, f]``, or ``attr_data``, ``attr_indices``, ``attr_indptr`` and
    ``attr_shape`` in CSR form, which stay sparse; edges ``edge_index`` or ``edges [2, e]``, or
    ``adj_*`` in CSR form; labels ``y`` or ``labels [n]`` (numbers from 0 with -1 for unknown, or
    text). May be there: ``ids [n]``, ``owner [n]`` for the partition ``natural``,
    ``class_names [c]``, and ``train_mask``, ``val_mask``, ``test_mask [n]``. Edges count both ways
    unless ``directed``.
    """

    path: str = ""
    directed: bool = False

    def load(self) -> Graph:
        with _opened(self.path) as opened:
            return self._graph(f"'{self.path}'", _Arrays(f"'{self.path}'", opened))

    def _graph(self, where: str, arrays: _Arrays) -> Graph:
        x = checked_features(where, *_features(where, arrays))
        nodes = x.shape[0]
        y, names = checked_labels(where, *_one_of(where, arrays, "labels", "y", "labels"))
        if len(y) != nodes:
            raise AtollError(
                f"{where}: there are {len(y)} labels for {nodes} nodes; give one per node, -1 for "
                f"unknown."
            )
        names = names or _class_names(where, arrays, y)
        key, edges = _edges(where, arrays)
        return assemble(
            x=x,
            edges=checked_edges(where, key, edges, nodes),
            y=y,
            classes=class_count(where, y, names),
            ids=checked_ids(where, "ids", arrays["ids"], nodes)
            if "ids" in arrays
            else np.arange(nodes),
            name=Path(self.path).stem,
            splits={
                split: checked_mask(where, f"{split}_mask", arrays[f"{split}_mask"], y)
                for split in SPLITS
                if f"{split}_mask" in arrays
            },
            holdings=owner_holdings(where, "owner", arrays["owner"], nodes)
            if "owner" in arrays
            else (),
            class_names=names,
            directed=self.directed,
        )


class _Arrays(Mapping[str, np.ndarray]):
    """The arrays of an .npz file, each read and checked when it is asked for."""

    def __init__(self, where: str, opened: np.lib.npyio.NpzFile) -> None:
        self.where, self.opened = where, opened

    def __getitem__(self, key: str) -> np.ndarray:
        if key not in self.opened.files:
            raise KeyError(key)
        try:
            array: np.ndarray = self.opened[key]
        except DAMAGE as problem:
            raise AtollError(
                f"{self.where}: '{key}' is damaged or holds Python objects, which are not loaded "
                f"({str(problem).rstrip('.')}); save it as plain numbers or text."
            ) from problem
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self.opened.files)

    def __len__(self) -> int:
        return len(self.opened.files)


def _opened(path: str) -> np.lib.npyio.NpzFile:
    if not path:
        raise AtollError("data.path is not given; set it to the .npz file of your graph.")
    file = Path(path)
    if file.is_dir():
        raise AtollError(f"'{file}' (data.path) is a folder; name the .npz file in it.")
    if not file.is_file():
        raise AtollError(f"there is no file '{file}' (data.path); check the path.")
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


def _edges(where: str, arrays: _Arrays) -> tuple[str, np.ndarray]:
    if "adj_indices" not in arrays or "edge_index" in arrays or "edges" in arrays:
        return _one_of(where, arrays, "edges", "edge_index", "edges", "adj_indices")
    adjacency = _csr(where, arrays, "adj")
    if adjacency.shape[0] != adjacency.shape[1]:
        raise AtollError(
            f"{where}: adj has the shape {adjacency.shape}; it must have a row and a column for "
            f"each node."
        )
    rows, columns = sparse.coo_array(adjacency).coords
    return "adj", np.stack([rows, columns]).astype(np.int64)


def _csr(where: str, arrays: _Arrays, prefix: str) -> sparse.csr_array:
    for part in _CSR:
        if f"{prefix}_{part}" not in arrays and (prefix, part) != ("adj", "data"):
            raise AtollError(
                f"{where} has no '{prefix}_{part}'; a matrix in CSR form needs {prefix}_data, "
                f"{prefix}_indices, {prefix}_indptr and {prefix}_shape."
            )
    indices, indptr, shape = (arrays[f"{prefix}_{part}"] for part in _CSR[1:])
    data = arrays[f"{prefix}_data"] if f"{prefix}_data" in arrays else np.ones(len(indices))
    try:
        matrix = sparse.csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
        matrix.check_format(full_check=True)
        matrix.eliminate_zeros()
    except (ValueError, TypeError, IndexError) as problem:
        first = str(problem).strip().split("\n")[0].rstrip(".")
        raise AtollError(
            f"{where}: {prefix}_data, {prefix}_indices, {prefix}_indptr and {prefix}_shape do not "
            f"fit together as a CSR matrix ({first}); write them anew."
        ) from problem
    return matrix


def _class_names(where: str, arrays: _Arrays, y: np.ndarray) -> tuple[str, ...]:
    if "class_names" not in arrays:
        return ()
    names = tuple(str(name) for name in arrays["class_names"].reshape(-1).tolist())
    if len(names) <= y.max(initial=-1) or len(set(names)) != len(names):
        raise AtollError(
            f"{where}: class_names has {len(set(names))} different names, but labels go up to "
            f"{y.max(initial=-1)}; name each class once."
        )
    return names
