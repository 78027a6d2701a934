"""The user's own graph as a node table and an edge table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars

from atoll.data.base import Dataset, datasets
from atoll.data.table_columns import (
    Columns,
    class_numbers,
    id_array,
    label_names,
    read_ids,
    read_owners,
    read_splits,
    sorted_names,
)
from atoll.data.table_edges import read_edges
from atoll.data.table_features import Feature, encode, find_features
from atoll.data.table_files import Table
from atoll.data.table_fitted import Preprocessing
from atoll.data.table_numbers import Group
from atoll.data.user_arrays import assemble
from atoll.errors import AtollError
from atoll.graph import Graph, Holding


@datasets.register("tables")
@dataclass(frozen=True, kw_only=True)
class Tables(Columns, Dataset):
    """Your own graph: a CSV or Parquet table of nodes and one of edges, any column names.

    ``nodes`` and ``edges`` are the files; the column options are those of :class:`Columns`.
    ``owner`` may name a column that says whose each node is, for the partition ``natural``.
    """

    nodes: str = ""
    edges: str = ""
    owner: str = ""

    def roles(self) -> dict[str, str]:
        return super().roles() | ({"owner": self.owner} if self.owner else {})

    def load(self) -> Graph:
        nodes, edges = self.node_table(), self.read_edges(self.edges)
        return graph_of(nodes, edges, self, Path(self.nodes).stem, self.owner)

    def node_table(self) -> Table:
        return self.read_nodes(self.nodes, self.as_text())

    def fitted(self, graph: Graph) -> Graph:
        """Scales and fillings of each owner, from its own training nodes (all without owners)."""
        if self.split or not (self.standardise or self.missing != "error"):
            return graph
        nodes = self.node_table()
        groups = _fitting_groups(graph.nodes, graph.holdings, graph.train)
        features = find_features(nodes, self)
        return replace(graph, x=encode(nodes, features, self.standardise, self.missing, groups)[0])

    def preprocessing(self, train: np.ndarray | None = None) -> dict[str, Any]:
        nodes = self.node_table()
        features, classes = find_features(nodes, self), classes_of(nodes, self)
        y = class_numbers(nodes, self.label, label_names(nodes, self.label), classes)
        if self.split:
            train = read_splits(nodes, self.split, y)["train"]
        holdings = read_owners(nodes, self.owner) if self.owner else ()
        groups = _fitting_groups(nodes.frame.height, holdings, train)
        parties = dict(zip([h.name for h in holdings] or [""], groups, strict=True))
        return Preprocessing.fitted(nodes, features, self, classes, parties).as_json()


def graph_of(nodes: Table, edges: Table, columns: Columns, name: str, owner: str = "") -> Graph:
    """The graph that two tables describe."""
    require_roles(nodes, columns)
    features = find_features(nodes, columns)
    classes = classes_of(nodes, columns)
    return encoded_graph(nodes, edges, columns, features, classes, name, owner)


def classes_of(nodes: Table, columns: Columns) -> tuple[str, ...]:
    """The classes' names: those agreed on, or the labels found."""
    return columns.class_names or sorted_names(label_names(nodes, columns.label).drop_nulls())


def require_roles(nodes: Table, columns: Columns) -> None:
    """Look the columns up before their content is read: a misspelt name is the likelier mistake."""
    for option, column in columns.roles().items():
        nodes.column(column, option)


def encoded_graph(
    nodes: Table,
    edges: Table,
    columns: Columns,
    features: list[Feature],
    classes: tuple[str, ...],
    name: str,
    owner: str = "",
) -> Graph:
    """The graph of two tables whose features and classes are agreed on."""
    ids = read_ids(nodes, columns.id).cast(polars.String)
    y = class_numbers(nodes, columns.label, label_names(nodes, columns.label), classes)
    if not classes:
        raise nodes.unfit(columns.label, "no node has a label; label some to have what to learn.")
    splits = read_splits(nodes, columns.split, y) if columns.split else None
    holdings = read_owners(nodes, owner) if owner else ()
    train = None if splits is None else splits["train"]
    groups = _fitting_groups(nodes.frame.height, holdings, train)
    x, feature_names = encode(nodes, features, columns.standardise, columns.missing, groups)
    if len(set(feature_names)) != len(feature_names):
        twice = next(f for f in feature_names if feature_names.count(f) > 1)
        raise AtollError(f"{nodes.source}: two features would be called '{twice}'; rename one.")
    links, weights = read_edges(edges, columns, ids, nodes.source)
    return assemble(
        x=x,
        edges=links,
        weights=weights,
        log_weights=columns.weight_scale == "log",
        y=y,
        classes=len(classes),
        ids=id_array(ids),
        name=name,
        splits=splits,
        holdings=holdings,
        class_names=classes,
        feature_names=feature_names,
        directed=columns.directed,
    )


def _fitting_groups(
    nodes: int, holdings: Sequence[Holding], train: np.ndarray | None
) -> list[Group]:
    """Each party's rows, and its training rows where these are known."""
    parties = [holding.nodes for holding in holdings] or [np.arange(nodes)]
    if train is None:
        return [(rows, rows) for rows in parties]
    return [(rows, rows[train[rows]]) for rows in parties]
