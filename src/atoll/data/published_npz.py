"""The two layouts of ``.npz`` in which graphs are published."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from atoll.data.reading import checked_csr, checked_edges, checked_labels, compact, readable
from atoll.graph import Graph, make_graph

CSR = ("data", "indices", "indptr", "shape")


def read_npz(path: Path, name: str) -> Graph:
    """A graph whose adjacency and features are stored as CSR parts (Shchur et al., 2018).

    Arrays ``adj_*`` and ``attr_*`` (``data``, ``indices``, ``indptr``, ``shape``) and ``labels``.
    Features keep their numbers and stay sparse; torch_geometric's reader makes them dense and sets
    every positive one to 1.
    """
    with readable(path, "a graph of sparse arrays"):
        x, adjacency = _csr(path, "attr"), _csr(path, "adj").tocoo()
        (labels,) = read_arrays(path, "labels")
        if adjacency.shape != (x.shape[0],) * 2:
            raise ValueError(f"it joins {adjacency.shape[0]} nodes and describes {x.shape[0]}")
        edges = checked_edges(np.stack(adjacency.coords), x.shape[0])
        return make_graph(x, edges, checked_labels(labels, x.shape[0]), name=name)


def read_edge_list_npz(path: Path, name: str) -> Graph:
    """A graph of dense ``features [n, f]``, ``edges [e, 2]`` and ``target [n]`` (MUSAE)."""
    with readable(path, "a graph with an edge list"):
        features, pairs, labels = read_arrays(path, "features", "edges", "target")
        x = compact(features)
        edges = checked_edges(pairs.T, x.shape[0])
        return make_graph(x, edges, checked_labels(labels, x.shape[0]), name=name)


def read_arrays(path: Path, *names: str) -> list[np.ndarray]:
    """Some arrays of an ``.npz``; others, and pickled objects, stay unread."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        for name in names:
            if name not in stored:
                raise ValueError(f"it holds no array '{name}'")
        return [stored[name] for name in names]


def _csr(path: Path, prefix: str) -> sparse.csr_array:
    *parts, shape = read_arrays(path, *(f"{prefix}_{part}" for part in CSR))
    matrix = checked_csr(parts, shape)
    matrix.sum_duplicates()
    return matrix.astype(np.float32)
