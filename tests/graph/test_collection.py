"""Many small graphs kept as one."""

from dataclasses import replace

import numpy as np
import pytest

from atoll.errors import AtollError
from atoll.graph import Holding, first_nodes, nodes_of_graphs
from small_collections import collection

SHAPES = [("ring", 3), ("path", 2), ("ring", 4)]


def test_labels_stand_at_first_nodes():
    whole = collection(SHAPES)
    assert whole.first_nodes.tolist() == [0, 3, 5]
    assert whole.y.tolist() == [1, -1, -1, 0, -1, 1, -1, -1, -1]


def test_of_one_graph_every_node_may_have_a_label():
    assert replace(collection(SHAPES), graph_of=None).first_nodes.tolist() == list(range(9))


def test_nodes_of_some_graphs_in_the_order_given():
    assert nodes_of_graphs(collection(SHAPES).graph_of, np.array([2, 0])).tolist() == [
        5,
        6,
        7,
        8,
        0,
        1,
        2,
    ]
    assert first_nodes(np.zeros(0, dtype=int)).tolist() == []


def test_a_part_counts_its_graphs_from_0():
    whole = collection(SHAPES)
    part = whole.subgraph(nodes_of_graphs(whole.graph_of, np.array([2, 1])))
    assert part.graph_of.tolist() == [0, 0, 0, 0, 1, 1]
    assert part.y.tolist() == [1, -1, -1, -1, 0, -1]
    assert part.edge_count == 5


def test_a_holding_with_a_space_of_its_own():
    whole = replace(collection(SHAPES), holdings=(Holding("a", np.arange(3), space="rings"),))
    assert whole.held(whole.holdings[0]).space == "rings"
    assert whole.space == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"graph_of": np.zeros(8, dtype=int)}, "'graph_of' has 8 entries for 9 nodes"),
        ({"graph_of": np.array([1] * 9)}, "must count graphs from 0"),
        ({"graph_of": np.array([0, 1, 0] * 3)}, "must count graphs from 0"),
        ({"graph_of": np.array([0] * 4 + [1] * 5)}, "an edge joins nodes of two graphs"),
        ({"y": np.array([1, 0, -1, 0, -1, 1, -1, -1, -1])}, "node 1 has a label and is not"),
    ],
)
def test_what_is_no_collection_is_refused(change, message):
    with pytest.raises(AtollError, match=message):
        replace(collection(SHAPES), **change)
