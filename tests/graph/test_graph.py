from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from atoll.errors import AtollError
from atoll.graph import Holding, largest_component, make_graph, row_normalised, undirected_edges
from small_federations import path_graph


def test_undirected_edges_drop_loops_and_duplicates():
    edges = np.array([[0, 1, 2, 2, 0], [1, 0, 2, 1, 1]])
    assert undirected_edges(edges, 3).tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]


def test_subgraph_keeps_inner_edges_in_the_order_given():
    graph = path_graph([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
    part = graph.subgraph(np.array([3, 2, 0]))
    assert part.x.flatten().tolist() == [3, 2, 0]
    assert part.ids.tolist() == [3, 2, 0]
    assert sorted(map(tuple, part.edges.T.tolist())) == [(0, 1), (1, 0)]


def test_a_holding_has_its_own_edges_and_shrinks_with_the_graph():
    graph = path_graph([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
    first_edge = np.flatnonzero(graph.edges.min(axis=0) == 0)
    graph = replace(
        graph,
        holdings=(Holding("a", np.array([0, 1, 2]), first_edge), Holding("b", np.array([3]))),
    )
    held = graph.held(graph.holdings[0])
    assert held.nodes == 3
    assert sorted(map(tuple, held.edges.T.tolist())) == [(0, 1), (1, 0)]
    smaller = graph.subgraph(np.array([1, 0]))
    assert [h.name for h in smaller.holdings] == ["a"]
    assert smaller.holdings[0].nodes.tolist() == [1, 0]
    assert smaller.held(smaller.holdings[0]).edges.shape == (2, 2)


def test_largest_component():
    graph = make_graph(np.ones((5, 1), np.float32), np.array([[0, 2, 3], [1, 3, 4]]), np.zeros(5))
    assert largest_component(graph).ids.tolist() == [2, 3, 4]


def test_row_normalised_keeps_rows_of_zero_and_sparsity():
    x = np.array([[1.0, 3.0], [0.0, 0.0]], dtype=np.float32)
    expected = [[0.25, 0.75], [0, 0]]
    assert row_normalised(x).tolist() == expected
    scaled = row_normalised(sparse.csr_array(x))
    assert sparse.issparse(scaled)
    assert scaled.toarray().tolist() == expected


def test_what_is_derived_is_computed_once():
    graph = path_graph([[0.0], [1.0]], [0, 1])
    assert graph.adjacency is graph.adjacency
    assert graph.undirected


@pytest.mark.parametrize("dense", [True, False])
def test_nan_features_name_node_and_column(dense):
    x = np.ones((3, 2), dtype=np.float32)
    x[1, 0] = np.nan
    with pytest.raises(AtollError, match=r"feature 0 of node 1 \(id n1\)"):
        make_graph(
            x if dense else sparse.csr_array(x),
            np.array([[0], [1]]),
            np.zeros(3),
            ids=np.array(["n0", "n1", "n2"]),
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.array([0, 5])}, "node 1 has label 5"),
        ({"y": np.array([0, -2])}, "node 1 has label -2"),
        ({"y": np.array([0, -1])}, "node 1 is in a split but has no label"),
        ({"edges": np.array([[0], [7]])}, "edges must be"),
        ({"y": np.array([0])}, "'y' has 1 entries for 2 nodes"),
    ],
)
def test_malformed_graphs_are_refused_in_one_sentence(change, message):
    graph = path_graph([[0.0], [1.0]], [0, 1])
    with pytest.raises(AtollError, match=message):
        replace(graph, **change)
