"""Subgraphs and holdings against a plain reading of what they are."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from atoll.errors import AtollError
from atoll.graph import Graph, Holding, make_graph, undirected_edges

few_examples = settings(deadline=None, max_examples=60, derandomize=True)


@st.composite
def directed_graphs(draw) -> Graph:
    """Up to 12 nodes with edges in any order, loops and duplicates included."""
    n = draw(st.integers(1, 12))
    ends = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(ends, ends), max_size=30))
    edges = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    nothing = np.zeros(n, dtype=bool)
    x = np.arange(n, dtype=np.float32)[:, None]
    y = np.zeros(n, dtype=np.int64)
    return Graph(x, edges, y, 1, nothing, nothing, nothing, np.arange(n) + 100)


@few_examples
@given(graph=directed_graphs(), data=st.data())
def test_a_subgraph_keeps_edges_between_its_nodes_in_order(graph, data):
    nodes = data.draw(st.lists(st.integers(0, graph.nodes - 1), unique=True))
    part = graph.subgraph(np.array(nodes, dtype=np.int64))
    kept = [[u, v] for u, v in graph.edges.T.tolist() if u in nodes and v in nodes]
    assert part.ids.tolist() == [node + 100 for node in nodes]
    assert (part.ids[part.edges] - 100).T.tolist() == kept
    assert part.x[:, 0].tolist() == nodes


@few_examples
@given(graph=directed_graphs(), data=st.data())
def test_a_party_holds_its_own_edges_only(graph, data):
    nodes = data.draw(st.lists(st.integers(0, graph.nodes - 1), unique=True))
    columns = data.draw(st.permutations(range(graph.edges.shape[1])))
    columns = columns[: len(columns) // 2]
    owned = Holding("party", np.array(nodes, dtype=np.int64), np.array(columns, dtype=np.int64))
    kept = [[u, v] for u, v in graph.edges[:, owned.edges].T.tolist() if u in nodes and v in nodes]
    assert (graph.held(owned).ids[graph.held(owned).edges] - 100).T.tolist() == kept
    everything = graph.held(replace(owned, edges=None))
    assert (everything.edges == graph.subgraph(owned.nodes).edges).all()
    assert everything.holdings == ()


def test_holdings_shrink_with_the_graph():
    # 0 - 1 - 2 - 3; in the subgraph 3, 2, 1 the owner of 0 and 1 has one node, of 0 none.
    graph = make_graph(np.zeros((4, 1), np.float32), np.array([[0, 1, 2], [1, 2, 3]]), np.zeros(4))
    column = graph.edges.T.tolist().index([2, 3])
    owners = (
        Holding("alone", np.array([0])),
        Holding("left", np.array([0, 1]), links=("right",)),
        Holding("right", np.array([2, 3]), np.array([column])),
    )
    part = replace(graph, holdings=owners).subgraph(np.array([3, 2, 1]))
    left, right = part.holdings
    assert (left.name, left.nodes.tolist(), left.links) == ("left", [2], ("right",))
    assert (right.name, right.nodes.tolist()) == ("right", [1, 0])
    assert part.edges[:, right.edges].T.tolist() == [[1, 0]]


@few_examples
@given(graph=directed_graphs())
def test_undirected_means_a_symmetric_adjacency(graph):
    dense = graph.adjacency.toarray()
    assert graph.undirected == bool((dense == dense.T).all())


@few_examples
@given(graph=directed_graphs())
def test_undirected_edges_are_both_directions_once_sorted_without_loops(graph):
    pairs = {(u, v) for u, v in graph.edges.T.tolist() if u != v}
    expected = sorted(pairs | {(v, u) for u, v in pairs})
    both = undirected_edges(graph.edges, graph.nodes)
    assert both.dtype == np.int64
    assert [tuple(pair) for pair in both.T.tolist()] == expected


def test_what_is_known_to_be_undirected_stays_so_in_a_part():
    graph = make_graph(np.zeros((3, 1), np.float32), np.array([[0, 1], [1, 2]]), np.zeros(3))
    assert graph.undirected
    assert graph.subgraph(np.array([2, 1])).undirected
    one_way = Holding("one way", np.array([0, 1]), np.array([0]))
    assert not graph.held(one_way).undirected


@pytest.mark.parametrize("pair", [[0, 3], [-1, 0]])
def test_edges_to_nodes_that_do_not_exist(pair):
    with pytest.raises(AtollError, match="node numbers from 0 to 2"):
        make_graph(np.zeros((3, 1), np.float32), np.array([pair]).T, np.zeros(3))


def test_relabelling_shares_what_follows_from_features_and_edges():
    x = sparse.csr_array(np.eye(3, dtype=np.float32))
    graph = make_graph(x, np.array([[0, 1], [1, 2]]), np.array([0, 1, 0]))
    train = np.array([True, False, False])
    other = graph.relabelled(y=np.array([0, -1, -1]), train=train, val=~train & False, name="other")
    assert other.adjacency is graph.adjacency
    assert (graph.y.tolist(), graph.train.any()) == ([0, 1, 0], np.False_)
    assert other.train.tolist() == [True, False, False]
