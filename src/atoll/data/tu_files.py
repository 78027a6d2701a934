"""The text files of TUDataset: one collection of small graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars
from scipy import sparse

from atoll.data.reading import checked_edges, compact, first_line, readable
from atoll.graph import Features, Graph, make_graph, node_mask

# What every collection has, and what of the rest is read.
NEEDED = ("A", "graph_indicator", "graph_labels")
OPTIONAL = ("node_labels", "node_attributes")


def read_collection(folder: Path, collection: str, name: str, features: str) -> Graph:
    """A collection as one graph; a small graph's class stands at its first node.

    ``A`` has one directed edge per line, as two node numbers counted from 1; ``graph_indicator``
    the number of each node's graph; ``graph_labels`` each graph's class, of which the smallest
    number becomes 0 and so on; ``node_labels`` one or several whole numbers per node.
    """

    def file(part: str) -> Path:
        return folder / f"{collection}_{part}.txt"

    with readable(file("graph_indicator"), "numbers of graphs"):
        of = numbers(file("graph_indicator"), np.int64)[:, 0]
        graph_of = np.unique(of, return_inverse=True)[1]
        if len(of) == 0 or (np.diff(of) < 0).any():
            raise ValueError("the nodes of a graph do not follow each other")
    with readable(file("graph_labels"), "classes of graphs"):
        labels = numbers(file("graph_labels"), np.int64)[:, 0]
        kinds, classes = np.unique(labels, return_inverse=True)
        if len(labels) != int(of.max()) or of.min() < 1:
            raise ValueError(f"it has {len(labels)} lines for {int(of.max())} graphs")
        classes = classes[of[np.unique(graph_of, return_index=True)[1]] - 1]
    n = len(of)
    with readable(file("A"), "edges"):
        edges = checked_edges(numbers(file("A"), np.int64).T - 1, n)
        if (graph_of[edges[0]] != graph_of[edges[1]]).any():
            raise ValueError("an edge joins nodes of two graphs")
    y = np.full(n, -1, dtype=np.int64)
    y[np.unique(graph_of, return_index=True)[1]] = classes
    whole = make_graph(np.zeros((n, 0)), edges, y, classes=len(kinds), name=name)
    x = _features(folder, collection, features, whole)
    return _with(whole, x, graph_of)


def _with(graph: Graph, x: Features, graph_of: np.ndarray) -> Graph:
    nothing = node_mask(np.zeros(0, dtype=np.int64), graph.nodes)
    return Graph(
        x=x,
        edges=graph.edges,
        y=graph.y,
        classes=graph.classes,
        train=nothing,
        val=nothing,
        test=nothing,
        ids=graph.ids,
        name=graph.name,
        graph_of=graph_of,
    )


def _features(folder: Path, collection: str, features: str, graph: Graph) -> Features:
    labels, attributes = (folder / f"{collection}_{part}.txt" for part in OPTIONAL)
    parts: list[Features] = []
    if features == "labels-and-attributes" and attributes.is_file():
        with readable(attributes, "attributes of nodes"):
            parts.append(_one_per_node(numbers(attributes, np.float64), graph.nodes))
    if features != "degree" and labels.is_file():
        with readable(labels, "labels of nodes"):
            columns = _one_per_node(numbers(labels, np.int64), graph.nodes)
            parts += [one_hot(column - column.min()) for column in columns.T]
    if not parts:
        parts = [one_hot(np.bincount(graph.edges[1], minlength=graph.nodes))]
    if len(parts) == 1 and sparse.issparse(parts[0]):
        return parts[0]
    return compact(sparse.hstack([sparse.csr_array(part) for part in parts]).toarray())


def numbers(path: Path, dtype: type[np.generic]) -> np.ndarray:
    """Lines of numbers, separated by commas ``[lines, columns]``."""
    kind = polars.Int64 if issubclass(dtype, np.integer) else polars.Float64
    try:
        text = polars.read_csv(path, has_header=False, infer_schema=False)
        stripped = text.select(polars.all().str.strip_chars().cast(kind))
    except polars.exceptions.PolarsError as problem:
        raise ValueError(first_line(problem)) from problem
    if stripped.null_count().sum_horizontal().sum():
        raise ValueError("a number is missing")
    return stripped.to_numpy().astype(dtype)


def one_hot(values: np.ndarray) -> sparse.csr_array:
    """One column per number from 0 to the largest ``[n, values]``."""
    n = len(values)
    return sparse.csr_array(
        (np.ones(n, dtype=np.float32), values, np.arange(n + 1)), shape=(n, int(values.max()) + 1)
    )


def _one_per_node(rows: np.ndarray, nodes: int) -> np.ndarray:
    if len(rows) != nodes:
        raise ValueError(f"it has {len(rows)} lines for {nodes} nodes")
    return rows
