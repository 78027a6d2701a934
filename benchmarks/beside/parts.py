"""The clients' graphs as one file of plain arrays, which every side reads: the very same parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

_ARRAYS = ("edges", "y", "train", "val", "test")


@dataclass(frozen=True)
class Part:
    """One client's graph: ``x [n, f]`` dense or CSR, ``edges [2, e]`` in both directions."""

    x: Any
    edges: np.ndarray
    y: np.ndarray
    train: np.ndarray
    val: np.ndarray
    test: np.ndarray
    classes: int

    @property
    def dense(self) -> np.ndarray:
        x = self.x.toarray() if sparse.issparse(self.x) else self.x
        return np.asarray(x, dtype=np.float32)


def write_parts(path: Path, graphs: Sequence[Any]) -> None:
    """Anything with the fields of a part will do."""
    arrays = {"clients": np.array(len(graphs)), "classes": np.array(graphs[0].classes)}
    for k, graph in enumerate(graphs):
        arrays |= {f"{k}.{name}": getattr(graph, name) for name in _ARRAYS}
        if sparse.issparse(graph.x):
            x = sparse.csr_array(graph.x)
            arrays |= {f"{k}.{name}": getattr(x, name) for name in ("data", "indices", "indptr")}
            arrays[f"{k}.shape"] = np.array(x.shape)
        else:
            arrays[f"{k}.x"] = graph.x
    np.savez(path, **arrays)


def read_parts(path: Path) -> list[Part]:
    with np.load(path, allow_pickle=False) as found:
        return [_part(found, k) for k in range(int(found["clients"]))]


def _part(found: Any, k: int) -> Part:
    if f"{k}.x" in found:
        x = found[f"{k}.x"]
    else:
        csr = tuple(found[f"{k}.{name}"] for name in ("data", "indices", "indptr"))
        x = sparse.csr_array(csr, shape=tuple(found[f"{k}.shape"]))
    arrays = {name: found[f"{k}.{name}"] for name in _ARRAYS}
    return Part(x=x, classes=int(found["classes"]), **arrays)


def part_of(graph: Any) -> Part:
    """A graph of Atoll's as a part."""
    arrays = {name: getattr(graph, name) for name in _ARRAYS}
    return Part(x=graph.x, classes=graph.classes, **arrays)
