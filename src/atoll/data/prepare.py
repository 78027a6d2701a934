"""What datasets do to a graph once it is read: options and published splits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from atoll.graph import Graph, largest_component, row_normalised


def with_split(graph: Graph, train: np.ndarray, val: np.ndarray, test: np.ndarray) -> Graph:
    """The graph with its published masks ``[n]``, which the split 'public' uses."""
    train, val, test = (np.asarray(part, dtype=bool) for part in (train, val, test))
    return replace(graph, train=train, val=val, test=test)


def prepared(graph: Graph, *, component: bool = False, normalise: bool = False) -> Graph:
    """The largest component only, and rows of features that sum to one, if so chosen."""
    if component:
        graph = largest_component(graph)
    return replace(graph, x=row_normalised(graph.x)) if normalise else graph


def one_per_word(graph: Graph) -> Graph:
    """Every positive feature set to 1."""
    x = sparse.csr_array(graph.x, copy=True)
    x.data[x.data > 0] = 1.0
    return replace(graph, x=x)
