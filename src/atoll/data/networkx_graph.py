"""A NetworkX graph as a dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import polars

from atoll.data.in_memory import InMemory, from_graph
from atoll.data.table_files import Table, free_name
from atoll.data.table_numbers import Missing
from atoll.data.tables import Tables, graph_of
from atoll.errors import AtollError

if TYPE_CHECKING:
    import networkx


def from_networkx(
    graph: networkx.Graph,
    *,
    label: str = "label",
    features: Sequence[str] = (),
    categorical: Sequence[str] = (),
    split: str = "",
    owner: str = "",
    class_names: Sequence[str] = (),
    standardise: bool = False,
    directed: bool = False,
    weight: str = "weight",
    missing: Missing = "error",
    name: str = "networkx",
) -> InMemory:
    """A NetworkX graph as the ``data`` of :func:`atoll.run`.

    ``label``, ``split``, ``owner`` and ``features`` name node attributes, with the meanings of
    the dataset ``tables``, as has ``missing``; without ``features`` every other attribute is one.
    A node without the label is unlabelled. An attribute may be a vector (a list or an array of
    numbers). A node's id is its name as text. ``weight`` names the edge attribute that weighs the
    edges, if any edge has it; an edge without it weighs 1, as in NetworkX. Empty: no weights.
    """
    ids = _names(graph)
    attributes = list(dict.fromkeys(key for _, values in graph.nodes(data=True) for key in values))
    key = free_name("node", {str(attribute) for attribute in attributes})
    nodes = polars.DataFrame(
        [
            polars.Series(key, ids, dtype=polars.String),
            *(_attribute(graph, attribute) for attribute in attributes),
        ]
    )
    edges = _edge_table(graph, weight)
    columns = Tables(
        id=key,
        label=label,
        split=split,
        owner=owner,
        features=tuple(features),
        categorical=tuple(categorical),
        class_names=tuple(class_names),
        standardise=standardise,
        directed=directed,
        missing=missing,
        weight="weight" if "weight" in edges.columns else "",
    )
    return from_graph(
        graph_of(
            _table(nodes, "the NetworkX graph", lambda row: f"node '{ids[row]}'"),
            _table(edges, "the NetworkX graph", partial(_edge_place, edges)),
            columns,
            name,
            owner,
        )
    )


def _edge_table(graph: networkx.Graph, weight: str) -> polars.DataFrame:
    """The edges' ends as text and, if any edge has one, their weights."""
    listed = list(graph.edges(data=True))
    ends = [(str(a), str(b)) for a, b, _ in listed]
    edges = polars.DataFrame(
        ends, schema={"source": polars.String, "target": polars.String}, orient="row"
    )
    if not weight or not any(weight in values for _, _, values in listed):
        return edges
    given = [values.get(weight, 1) for _, _, values in listed]
    plain = [value.item() if hasattr(value, "item") else value for value in given]
    return edges.with_columns(polars.Series("weight", plain, strict=False))


def _edge_place(edges: polars.DataFrame, row: int) -> str:
    source, target, *_ = edges.row(row)
    return f"edge {row + 1}, from '{source}' to '{target}'"


def _names(graph: networkx.Graph) -> list[str]:
    """The nodes as text, each of which must be another."""
    ids = [str(node) for node in graph]
    if not ids:
        raise AtollError("the NetworkX graph has no nodes; add some.")
    if len(set(ids)) != len(ids):
        twice = next(name for place, name in enumerate(ids) if name in ids[:place])
        raise AtollError(
            f"two nodes of the NetworkX graph are called '{twice}' when written as text; rename "
            f"one."
        )
    return ids


def _attribute(graph: networkx.Graph, key: str) -> polars.Series:
    """One attribute of every node; null where a node lacks it."""
    values = [graph.nodes[node].get(key) for node in graph]
    plain = [value.tolist() if hasattr(value, "tolist") else value for value in values]
    return polars.Series(str(key), plain, strict=False)


def _table(frame: polars.DataFrame, source: str, place: Callable[[int], str]) -> Table:
    # Attributes have Python's types, node by node: text among numbers is a mistake, as in CSV.
    return Table(frame, source, place, typed=False, noun="attribute", prefix="")
