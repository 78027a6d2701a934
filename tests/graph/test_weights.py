"""Edge weights: three nodes, worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from weighted_paths import weighted_path

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.graph import Holding, View, directed_weights, undirected_weights
from atoll.methods.fed_gala.augment import with_links
from atoll.methods.fed_sage_plus.mending import mended
from atoll.ops.propagation import operator_of
from atoll.rng import stream
from atoll.tasks.links import LinkPrediction


def test_the_gcn_operator_has_weighted_degrees():
    # 0 - 1 weighs 3, 1 - 2 weighs 1; with loops the degrees are 4, 5 and 2.
    expected = [
        [1 / 4, 3 / np.sqrt(20), 0],
        [3 / np.sqrt(20), 1 / 5, 1 / np.sqrt(10)],
        [0, 1 / np.sqrt(10), 1 / 2],
    ]
    np.testing.assert_allclose(operator_of(weighted_path(), "gcn").toarray(), expected)


def test_the_mean_operator_is_a_weighted_mean():
    expected = [[0, 1, 0], [3 / 4, 0, 1 / 4], [0, 1, 0]]
    np.testing.assert_allclose(operator_of(weighted_path(), "mean").toarray(), expected)


def test_a_node_whose_edges_weigh_nothing_has_a_mean_of_zero():
    graph = replace(weighted_path(), weights=np.zeros(4))
    assert operator_of(graph, "mean").toarray().tolist() == np.zeros((3, 3)).tolist()


@pytest.mark.parametrize("name", ["gcn", "mean"])
def test_without_weights_the_operators_are_those_of_all_ones(name):
    bare = replace(weighted_path(), weights=None)
    ones = replace(weighted_path(), weights=np.ones(4))
    np.testing.assert_array_equal(
        operator_of(bare, name).toarray(), operator_of(ones, name).toarray()
    )
    assert bare.weighted_adjacency is bare.adjacency


def test_an_operator_with_unequal_directions_is_not_taken_for_its_transpose():
    unequal = replace(weighted_path(), weights=np.array([3.0, 9.0, 1.0, 1.0]))
    assert unequal.undirected
    assert not unequal.symmetric
    assert weighted_path().symmetric
    operator = Cohort([unequal], dtype=torch.float64).operator("gcn")
    x = torch.eye(3, dtype=torch.float64, requires_grad=True)
    pick = torch.arange(9, dtype=torch.float64).view(3, 3)
    (pick * (operator @ x)).sum().backward()
    transpose = torch.from_numpy(operator_of(unequal, "gcn").toarray().T.copy())
    torch.testing.assert_close(x.grad, transpose @ pick)


def test_clients_that_share_a_graph_but_not_its_weights_do_not_share_inputs():
    graph = weighted_path()
    other = replace(graph, weights=np.full(4, 2.0))
    assert Cohort([graph, graph]).one_graph
    assert not Cohort([graph, other]).one_graph


def test_parts_keep_the_weights_of_their_edges():
    part = weighted_path().subgraph(np.array([1, 0]))
    assert part.edges.tolist() == [[1, 0], [0, 1]]
    assert part.weights.tolist() == [3.0, 3.0]


def test_a_party_may_weigh_its_edges_otherwise_also_in_a_part():
    view = View(weights=np.array([5.0, 5.0, 7.0, 7.0]))
    whole = replace(
        weighted_path(), holdings=(Holding("a", np.arange(3), np.arange(4), view=view),)
    )
    assert whole.held(whole.holdings[0]).weights.tolist() == [5.0, 5.0, 7.0, 7.0]
    part = whole.subgraph(np.array([1, 2]))
    assert part.held(part.holdings[0]).weights.tolist() == [7.0, 7.0]


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_a_weight_that_is_none_is_refused(weight):
    with pytest.raises(AtollError, match="the weight of edge 2 is"):
        replace(weighted_path(), weights=np.array([1.0, 1.0, weight, 1.0]))
    with pytest.raises(AtollError, match="for 4 edges; give one per edge"):
        replace(weighted_path(), weights=np.ones(3))


def test_repeated_edges_add_up_and_both_directions_are_one_edge():
    listed = np.array([[0, 0, 1, 2, 2], [1, 1, 0, 1, 2]])
    weights = np.array([1.0, 2.0, 5.0, 4.0, 9.0])
    both = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    # 0 to 1 weighs 1 + 2, back 5: their mean. 2 to 1 stands alone.
    assert undirected_weights(listed, weights, both).tolist() == [4.0, 4.0, 4.0, 4.0]
    kept = np.array([[0, 1, 2], [1, 0, 1]])
    assert directed_weights(listed, weights, kept).tolist() == [3.0, 5.0, 4.0]


def test_edges_that_methods_make_up_weigh_as_much_as_others():
    linked = with_links(weighted_path(), np.array([[0, 2], [0, 1]]))
    assert linked.edges.tolist() == [[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]]
    assert linked.weights.tolist() == [3.0, 2.0, 3.0, 1.0, 2.0, 1.0]
    grown = mended(weighted_path(), np.array([1, 0, 0]), np.ones((1, 2), dtype=np.float32))
    assert grown.weights.tolist() == [3.0, 3.0, 1.0, 1.0, 2.0, 2.0]


def test_links_to_be_predicted_leave_the_others_their_weights():
    task = LinkPrediction(val=0.3, test=0.2)
    graph = task.prepare(weighted_path(), stream(0, "links"))
    weight = {(0, 1): 3.0, (1, 2): 1.0}
    assert graph.edges.shape[1] == 2
    for (a, b), w in zip(graph.edges.T.tolist(), graph.weights, strict=True):
        assert w == weight[min(a, b), max(a, b)]
