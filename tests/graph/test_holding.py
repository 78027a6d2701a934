"""What a party has of a node that it shares, and names of classes."""

from dataclasses import replace

import numpy as np
import pytest

from atoll.errors import AtollError
from atoll.graph import Graph, Holding, View, make_graph


def path() -> Graph:
    """0 - 1 - 2 - 3; 0 and 1 train, 2 tests, 3 has no label."""
    graph = make_graph(
        np.arange(4, dtype=np.float32)[:, None],
        np.array([[0, 1, 2], [1, 2, 3]]),
        np.array([0, 1, 0, -1]),
    )
    return replace(graph, train=np.arange(4) < 2, test=np.arange(4) == 2)


NODES = np.array([3, 2, 1])


def test_a_party_has_what_the_graph_has_by_default():
    party = path().held(Holding("all", NODES))
    assert party.x[:, 0].tolist() == [3, 2, 1]
    assert party.y.tolist() == [-1, 0, 1]
    assert party.train.tolist() == [False, False, True]
    assert party.test.tolist() == [False, True, False]


def test_its_own_features():
    own = np.array([[30], [20], [10]], dtype=np.float32)
    assert path().held(Holding("own", NODES, view=View(x=own))).x[:, 0].tolist() == [30, 20, 10]


def test_labels_it_does_not_know_are_in_no_split():
    party = path().held(Holding("unsure", NODES, view=View(known=np.array([False, True, False]))))
    assert party.y.tolist() == [-1, 0, -1]
    assert party.train.tolist() == [False, False, False]
    assert party.test.tolist() == [False, True, False]


def test_labels_it_knows_but_leaves_out():
    party = path().held(Holding("frugal", NODES, view=View(used=np.array([False, False, True]))))
    assert party.y.tolist() == [-1, 0, 1]
    assert party.train.tolist() == [False, False, True]
    assert party.test.tolist() == [False, False, False]


def test_views_shrink_with_the_graph():
    own = np.array([[30], [20], [10]], dtype=np.float32)
    known, used = np.array([False, True, True]), np.array([False, False, True])
    view = View(x=own, known=known, used=used)
    graph = replace(path(), holdings=(Holding("own", NODES, view=view),))
    smaller = graph.subgraph(np.array([1, 3]))
    [holding] = smaller.holdings
    assert holding.nodes.tolist() == [1, 0]
    party = smaller.held(holding)
    assert party.ids.tolist() == [3, 1]
    assert party.x[:, 0].tolist() == [30, 10]
    assert party.y.tolist() == [-1, 1]
    assert party.train.tolist() == [False, True]


@pytest.mark.parametrize("names", [("a",), ("a", "a"), ("a", "b", "c")])
def test_each_class_has_one_name(names):
    assert replace(path(), class_names=("a", "b")).subgraph(NODES).class_names == ("a", "b")
    with pytest.raises(AtollError) as problem:
        replace(path(), class_names=names)
    assert str(problem.value) == (
        f"graph: class_names are {', '.join(names)} for 2 classes; give each class a name of its "
        f"own, or none."
    )
