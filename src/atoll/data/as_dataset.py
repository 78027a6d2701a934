"""Whatever a user has in memory, as a dataset."""

from __future__ import annotations

from typing import Any

import numpy as np

from atoll.data.base import Dataset
from atoll.data.in_memory import from_graph
from atoll.data.networkx_graph import from_networkx
from atoll.data.pyg_data import from_pyg
from atoll.errors import AtollError
from atoll.graph import Graph


def as_dataset(data: Any, owner: str | None = None) -> Dataset:
    """A dataset, or a Graph, a PyG ``Data`` or a NetworkX graph as it is, as a dataset.

    Edges keep their directions where the object has any: in a NetworkX DiGraph, and in a PyG
    ``Data`` whose edges are not all listed both ways. ``owner`` names the attribute that says
    whose each node is. The wrappers (``from_pyg``, ``from_networkx``) take further options.
    """
    if isinstance(data, Dataset):
        if owner is not None:
            raise TypeError("data is given as an object: choose its owner there")
        return data
    if isinstance(data, Graph):
        if owner is not None:
            raise TypeError("a Graph has its owners in its holdings: choose them there")
        return from_graph(data)
    if getattr(data, "edge_index", None) is not None:
        return from_pyg(data, owner=_attribute(data, owner), directed=_is_directed(data))
    if all(hasattr(data, part) for part in ("nodes", "edges", "is_directed")):
        return _of_networkx(data, owner)
    raise AtollError(
        f"data is a {type(data).__name__}, which is no graph; give a dataset's name, a PyG Data "
        f"with x, edge_index and y, a NetworkX graph, or an atoll.Graph."
    )


def _of_networkx(graph: Any, owner: str | None) -> Dataset:
    """A refusal may name options, which are not those of whoever was given the graph."""
    try:
        return from_networkx(graph, owner=owner or "", directed=graph.is_directed())
    except AtollError as problem:
        raise AtollError(
            f"{problem} Options such as label and missing are those of "
            f"data=atoll.data.from_networkx(graph, ...)."
        ) from problem


def _attribute(data: Any, owner: str | None) -> Any:
    if owner is None:
        return None
    found = getattr(data, owner, None)
    if found is None:
        raise AtollError(
            f"the PyG data has no '{owner}' to be the owner; set data.{owner} to one owner per "
            f"node."
        )
    return found


def _is_directed(data: Any) -> bool:
    """Whether some edge is listed in one direction only."""
    edges = np.asarray(data.edge_index)
    if edges.ndim != 2 or edges.shape[0] != 2:
        return False  # to be refused with a sentence by whoever reads it
    forward, backward = (np.unique(way, axis=1) for way in (edges, edges[::-1]))
    return not np.array_equal(forward, backward)
