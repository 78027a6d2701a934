from dataclasses import replace

import numpy as np
from scipy import sparse

from atoll.data.prepare import one_per_word, prepared, with_split
from atoll.graph import Graph, Holding, dense, make_graph, node_mask


def two_components() -> Graph:
    """0 - 1 - 2 and 3 - 4; words counted."""
    x = sparse.csr_array(np.array([[3, 1], [0, 2], [0, 0], [1, 1], [4, 0]], dtype=np.float32))
    graph = make_graph(x, np.array([[0, 1, 3], [1, 2, 4]]), np.array([0, 1, 0, 1, 0]))
    return with_split(
        graph, node_mask(np.array([0, 3]), 5), node_mask(np.array([1]), 5), np.arange(5) == 4
    )


def test_published_masks_shrink_with_the_largest_component() -> None:
    graph = prepared(two_components(), component=True)
    assert graph.ids.tolist() == [0, 1, 2]
    assert graph.train.tolist() == [True, False, False]
    assert graph.val.tolist() == [False, True, False]
    assert not graph.test.any()


def test_rows_sum_to_one_and_everything_else_stays() -> None:
    graph = prepared(two_components(), normalise=True)
    assert sparse.issparse(graph.x)
    np.testing.assert_allclose(
        dense(graph.x), [[0.75, 0.25], [0, 1], [0, 0], [0.5, 0.5], [1, 0]], atol=1e-7
    )
    assert graph.train.tolist() == [True, False, False, True, False]


def test_every_word_counts_once() -> None:
    counted = two_components()
    assert dense(one_per_word(counted).x).tolist() == [[1, 1], [0, 1], [0, 0], [1, 1], [1, 0]]
    assert dense(counted.x)[0].tolist() == [3, 1]


def test_holdings_survive() -> None:
    graph = replace(two_components(), holdings=(Holding("a", np.array([1, 3])),))
    kept = prepared(graph, component=True, normalise=True)
    assert [h.nodes.tolist() for h in kept.holdings] == [[1]]
