"""Structure embeddings of a path, worked out by hand."""

import numpy as np

from atoll.graph import make_graph
from atoll.ops.structure import returns, structure_of


def path_and_a_lone_node():
    return make_graph(np.zeros((4, 1)), np.array([[0, 1], [1, 2]]), np.zeros(4, dtype=int))


def test_walks_on_a_path():
    """From an end one must go to the middle and comes back half of the time; a lone node stays
    nowhere."""
    assert returns(path_and_a_lone_node(), 4).tolist() == [
        [0.0, 0.5, 0.0, 0.5],
        [0.0, 1.0, 0.0, 1.0],
        [0.0, 0.5, 0.0, 0.5],
        [0.0, 0.0, 0.0, 0.0],
    ]


def test_degrees_end_at_the_largest_that_is_told_apart():
    star = make_graph(np.zeros((5, 1)), np.array([[0] * 4, range(1, 5)]), np.zeros(5, dtype=int))
    assert structure_of(star, 1, 3)[:, 1:].argmax(1).tolist() == [2, 0, 0, 0, 0]


def test_large_graphs_are_walked_some_nodes_at_a_time(monkeypatch):
    graph = path_and_a_lone_node()
    whole = returns(graph, 5)
    monkeypatch.setattr("atoll.ops.structure._AT_ONCE", 3)
    assert np.array_equal(returns(graph, 5), whole)
