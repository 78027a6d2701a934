"""Small graphs and federations that one can reason about."""

import os
from dataclasses import replace

import numpy as np
import pytest

from atoll.graph import Graph, make_graph
from atoll.laws.parties import community_parties

__all__ = ["community_parties", "needs_data", "path_graph"]

needs_data = pytest.mark.skipif(
    not os.environ.get("ATOLL_DATA"), reason="set ATOLL_DATA to the folder of real datasets"
)


def path_graph(x: np.ndarray, y: list[int], classes: int = 2) -> Graph:
    """Nodes in a row, each joined to the next; all of them train."""
    n = len(y)
    edges = np.array([range(n - 1), range(1, n)]) if n > 1 else np.zeros((2, 0), dtype=np.int64)
    graph = make_graph(np.asarray(x, dtype=np.float32), edges, np.array(y), classes=classes)
    every = np.ones(n, dtype=bool)
    return replace(graph, train=every, val=every, test=every)
