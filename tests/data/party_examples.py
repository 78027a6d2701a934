"""Small federations and how to compare them."""

from dataclasses import replace

import numpy as np
from scipy import sparse

from atoll.graph import Graph, Holding, dense, make_graph

ARRAYS = ("edges", "y", "train", "val", "test", "ids")


def same(a: Graph, b: Graph) -> None:
    """Equal to the bit, up to the name and to explicit zeros of sparse features."""
    for array in ARRAYS:
        np.testing.assert_array_equal(getattr(a, array), getattr(b, array), err_msg=array)
    assert sparse.issparse(a.x) == sparse.issparse(b.x)
    assert a.x.dtype == b.x.dtype
    np.testing.assert_array_equal(dense(a.x), dense(b.x))
    assert (a.classes, a.class_names) == (b.classes, b.class_names)
    assert a.feature_names == b.feature_names


def wheel(**changed) -> Graph:
    """Six nodes in a ring, two classes, each in a split."""
    ring = np.arange(6)
    graph = make_graph(
        np.arange(12, dtype=np.float32).reshape(6, 2),
        np.stack([ring, (ring + 1) % 6]),
        ring % 2,
        ids=np.array([f"n{i}" for i in ring]),
        name="wheel",
    )
    masks = {"train": ring < 2, "val": (ring == 2) | (ring == 3), "test": ring > 3}
    return replace(graph, **(masks | changed))


def halves(graph: Graph) -> list[Graph]:
    """Two parties that share the nodes 2 and 3, and each lack an edge between their own nodes."""
    left = Holding("left", np.array([0, 1, 2, 3]), _edges(graph, [(0, 1), (1, 2)]))
    right = Holding("right", np.array([5, 4, 3, 2]), _edges(graph, [(2, 3), (4, 5)]))
    return [graph.held(left), graph.held(right)]


def _edges(graph: Graph, pairs: list[tuple[int, int]]) -> np.ndarray:
    both = {*pairs, *((b, a) for a, b in pairs)}
    return np.array([i for i, pair in enumerate(graph.edges.T.tolist()) if tuple(pair) in both])
