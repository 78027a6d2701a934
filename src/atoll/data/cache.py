"""Graphs kept in a format of our own: quick to read, and no code inside.

An entry is one ``.npz`` of plain arrays (never pickles; the archive's checksums reveal damage) with
a JSON header. It is an answer remembered, never the truth: whatever is wrong with an entry or its
folder, the graph is read from its raw files again.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from atoll.data.reading import checked_csr
from atoll.files import written_whole
from atoll.graph import SPLITS, Graph, Holding

log = logging.getLogger("atoll")

# Raise this when the format changes, or when a reader makes another graph of the same files.
FORMAT = 1

Arrays = dict[str, np.ndarray]
_CSR = ("data", "indices", "indptr")


def cached(
    name: str, options: Mapping[str, Any], files: Sequence[Path], read: Callable[[], Graph]
) -> Graph:
    """What ``read`` makes of the files, remembered while options and files stay the same."""
    folder = cache_folder()
    if folder is None:
        return read()
    entry, key = _entry(folder, name, options), _key(name, options, files)
    graph = _recall(entry, key)
    if graph is None:
        graph = read()
        _remember(entry, key, graph)
    return graph


def cache_folder() -> Path | None:
    """``ATOLL_CACHE``, or a folder in the user's home; None if it would lie in ``ATOLL_DATA``."""
    given, data = os.environ.get("ATOLL_CACHE"), os.environ.get("ATOLL_DATA")
    try:
        folder = Path(given) if given else Path.home() / ".cache" / "atoll" / "graphs"
        inside = data and folder.resolve().is_relative_to(Path(data).resolve())
    except (OSError, RuntimeError):
        return None
    return None if inside else folder


def _entry(folder: Path, name: str, options: Mapping[str, Any]) -> Path:
    """One place for each dataset and its options: new raw files replace an old entry."""
    digest = blake2b(_json(options).encode(), digest_size=8).hexdigest()
    return folder / f"{name}-{digest}.npz"


def _key(name: str, options: Mapping[str, Any], files: Sequence[Path]) -> str:
    stamps = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return _json({"format": FORMAT, "name": name, "options": dict(options), "files": stamps})


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _recall(entry: Path, key: str) -> Graph | None:
    try:
        with entry.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            header = json.loads(stored["header"].tobytes())
            if header["key"] != key:
                return None
            return _graph(header, {name: stored[name] for name in header["shapes"]})
    except FileNotFoundError:
        return None
    except Exception as problem:
        log.info("the cache entry '%s' can't be used (%s) and is made anew", entry, problem)
        return None


def _remember(entry: Path, key: str, graph: Graph) -> None:
    try:
        header, arrays = _arrays(graph)
        header["key"] = key
        header["shapes"] = {name: list(array.shape) for name, array in arrays.items()}
        arrays["header"] = np.frombuffer(_json(header).encode(), dtype=np.uint8)
        with written_whole(entry) as part, part.open("xb") as file:
            np.savez(file, allow_pickle=False, **arrays)
    except (OSError, ValueError) as problem:
        log.info("'%s' can't be kept in the cache (%s)", graph.name, problem)


def _arrays(graph: Graph) -> tuple[dict[str, Any], Arrays]:
    """A graph as a JSON header and plain arrays; node numbers as int32, half the size."""
    if any(holding.view is not None for holding in graph.holdings):
        raise ValueError("parties' own views are not kept")
    header: dict[str, Any] = {
        "name": graph.name,
        "class_names": graph.class_names,
        "feature_names": graph.feature_names,
        "classes": graph.classes,
        "holdings": [holding.name for holding in graph.holdings],
        "whole": [holding.edges is None for holding in graph.holdings],
        "links": [holding.links for holding in graph.holdings],
        "spaces": [holding.space for holding in graph.holdings],
    }
    small = np.int32 if graph.nodes < 2**31 else np.int64
    arrays = {name: getattr(graph, name) for name in ("y", *SPLITS, "ids")}
    arrays["edges"] = graph.edges.astype(small)
    if graph.weights is not None:
        arrays["weights"] = graph.weights
    if graph.graph_of is not None:
        arrays["graph_of"] = graph.graph_of
    if sparse.issparse(graph.x):
        header["shape"] = list(graph.x.shape)
        arrays |= {f"x_{part}": getattr(graph.x, part) for part in _CSR}
    else:
        arrays["x"] = graph.x
    if graph.holdings:
        arrays["nodes"], arrays["nodes_ptr"] = _joined([h.nodes for h in graph.holdings])
        arrays["held"], arrays["held_ptr"] = _joined(
            [h.edges for h in graph.holdings if h.edges is not None]
        )
    return header, arrays


def _graph(header: Mapping[str, Any], arrays: Arrays) -> Graph:
    # numpy reads no further than a shape says, so a damaged shape escapes the checksums.
    for name, shape in header["shapes"].items():
        if list(arrays[name].shape) != shape:
            raise ValueError(f"'{name}' has the shape {arrays[name].shape} instead of {shape}")
    if "shape" in header:
        x = checked_csr([arrays[f"x_{part}"] for part in _CSR], header["shape"])
    else:
        x = arrays["x"]
    return Graph(
        x=x,
        edges=arrays["edges"].astype(np.int64),
        weights=arrays.get("weights"),
        graph_of=arrays.get("graph_of"),
        classes=header["classes"],
        name=header["name"],
        holdings=_holdings(header, arrays),
        class_names=tuple(header["class_names"]),
        feature_names=tuple(header["feature_names"]),
        y=arrays["y"],
        train=arrays["train"],
        val=arrays["val"],
        test=arrays["test"],
        ids=arrays["ids"],
    )


def _holdings(header: Mapping[str, Any], arrays: Arrays) -> tuple[Holding, ...]:
    if not header["holdings"]:
        return ()
    nodes = np.split(arrays["nodes"], arrays["nodes_ptr"])
    held = iter(np.split(arrays["held"], arrays["held_ptr"]))
    return tuple(
        Holding(name, mine, None if whole else next(held), tuple(links), space=space)
        for name, mine, whole, links, space in zip(
            header["holdings"],
            nodes,
            header["whole"],
            header["links"],
            header.get("spaces", [""] * len(nodes)),
            strict=True,
        )
    )


def _joined(pieces: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Pieces end to end, and where to split them again."""
    joined = np.concatenate([np.zeros(0, dtype=np.int64), *pieces])
    return joined, np.cumsum([len(piece) for piece in pieces[:-1]], dtype=np.int64)
