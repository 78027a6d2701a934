"""Graphs as plain arrays and values, to be handed to another process without a class by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from scipy import sparse

from atoll.graph.graph import Graph
from atoll.graph.holding import Holding, View

_CLASSES: dict[str, type[Any]] = {"graph": Graph, "holding": Holding, "view": View}
_NAMES = {cls: name for name, cls in _CLASSES.items()}
# What clients that hold the same graph have in common.
_SHARED = ("x", "edges", "weights")


class Common:
    """Features, edges and weights that several graphs hold, so that they are sent once.

    A cohort keeps once what its clients hold in common, and sees that it is the same object.
    """

    def __init__(self, graphs: Sequence[Graph]) -> None:
        held = [getattr(graph, name) for graph in graphs for name in _SHARED]
        count = Counter(id(part) for part in held if part is not None)
        several = {id(part): part for part in held if count[id(part)] > 1}
        self.number = {key: n for n, key in enumerate(several)}
        self.parts = list(several.values())

    def plain(self) -> list[Any]:
        return [_plain(part, {}) for part in self.parts]


def plain_graphs(graphs: Iterable[Graph], common: Common) -> list[dict[str, Any]]:
    """Graphs as dictionaries of arrays, numbers and text."""
    return [_plain(graph, common.number) for graph in graphs]


class GraphsOfPlain:
    """The way back. ``common`` is what :meth:`Common.plain` gave."""

    def __init__(self, common: Sequence[Any] = ()) -> None:
        self._common = [_of(part, ()) for part in common]
        self._first: dict[tuple[Any, ...], Graph] = {}

    def graph(self, plain: Mapping[str, Any]) -> Graph:
        """One graph; what is derived of features and edges is shared by those that share them."""
        parts = {name: _of(value, self._common) for name, value in plain.items() if name != "is"}
        key = tuple(
            plain[name].get("common") if isinstance(plain[name], dict) else None for name in _SHARED
        )
        if key[0] is None or key[1] is None:
            return Graph(**parts)
        if key not in self._first:
            self._first[key] = Graph(**parts)
        return self._first[key].with_own(**parts)


def _plain(value: Any, common: Mapping[int, int]) -> Any:
    if id(value) in common:
        return {"common": common[id(value)]}
    if type(value) in _NAMES:
        parts = {f.name: _plain(getattr(value, f.name), common) for f in fields(value)}
        return {"is": _NAMES[type(value)], **parts}
    if sparse.issparse(value):
        return {
            "is": "csr",
            "parts": [value.data, value.indices, value.indptr],
            "shape": list(value.shape),
        }
    if isinstance(value, tuple):
        return {"is": "tuple", "items": [_plain(item, common) for item in value]}
    return value


def _of(value: Any, common: Sequence[Any]) -> Any:
    """Arrays are copied: those that come through shared memory can't be written to."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if not isinstance(value, Mapping):
        return value
    if "common" in value:
        return common[value["common"]]
    what = value["is"]
    if what == "tuple":
        return tuple(_of(item, common) for item in value["items"])
    if what == "csr":
        parts = tuple(part.copy() for part in value["parts"])
        return sparse.csr_array(parts, shape=tuple(value["shape"]))
    return _CLASSES[what](**{n: _of(v, common) for n, v in value.items() if n != "is"})
