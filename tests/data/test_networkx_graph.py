"""A NetworkX graph with attributes as a dataset."""

import networkx as nx
import numpy as np
import pytest
import torch
from complaints import complaint

import atoll
from atoll.data import from_networkx


def friends() -> nx.Graph:
    """ann - bob - cat, with ages, towns and vectors; cat's side is unknown."""
    graph = nx.path_graph(["ann", "bob", "cat"])
    nx.set_node_attributes(graph, {"ann": "red", "bob": "blue"}, "side")
    nx.set_node_attributes(graph, {"ann": 30, "bob": 41.5, "cat": 28}, "age")
    nx.set_node_attributes(graph, {"ann": "x", "bob": "y", "cat": "x"}, "town")
    return graph


def by_side(graph, label="side"):
    return from_networkx(graph, label=label)


def test_attributes_become_labels_and_features():
    graph = from_networkx(friends(), label="side").load()
    assert graph.ids.tolist() == ["ann", "bob", "cat"]
    assert graph.class_names == ("blue", "red")
    assert graph.y.tolist() == [1, 0, -1]
    assert graph.feature_names == ("age", "town=x", "town=y")
    assert graph.x.tolist() == [[30, 1, 0], [41.5, 0, 1], [28, 1, 0]]
    assert graph.edges.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]


def test_owners_splits_and_chosen_features():
    graph = friends()
    nx.set_node_attributes(graph, {"ann": "train", "bob": "test"}, "part")
    read = from_networkx(graph, label="side", features=["age"], owner="town", split="part").load()
    assert [(h.name, h.nodes.tolist()) for h in read.holdings] == [("x", [0, 2]), ("y", [1])]
    assert read.train.tolist() == [True, False, False]
    assert read.test.tolist() == [False, True, False]
    assert read.x.tolist() == [[30], [41.5], [28]]


@pytest.mark.parametrize("make", [list, tuple, np.array, torch.tensor])
def test_vectors(make):
    graph = friends()
    for number, name in enumerate(graph):
        graph.nodes[name]["vector"] = make([number, 0.5])
    read = from_networkx(graph, label="side", features=["vector"]).load()
    assert read.feature_names == ("vector[0]", "vector[1]")
    assert read.x.tolist() == [[0, 0.5], [1, 0.5], [2, 0.5]]


def test_directions_are_kept_only_on_request():
    graph = nx.DiGraph(friends().edges)
    graph.add_nodes_from(friends().nodes(data=True))
    assert from_networkx(graph, label="side").load().edges.shape == (2, 4)
    kept = from_networkx(graph, label="side", directed=True).load()
    assert kept.edges.tolist() == [[0, 1], [1, 2]]


def test_an_attribute_may_be_called_node():
    graph = friends()
    nx.set_node_attributes(graph, 1.0, "node")
    read = from_networkx(graph, label="side").load()
    assert read.feature_names == ("age", "town=x", "town=y", "node")


def test_a_wrong_attribute_is_named_with_its_node():
    graph = friends()
    del graph.nodes["bob"]["age"]
    assert complaint(by_side, graph) == (
        "the NetworkX graph, attribute 'age', node 'bob': the number is missing; fill it in, drop "
        "the row or leave the column out, or have missing fill it."
    )
    graph.nodes["bob"]["age"] = "old"
    assert complaint(by_side, graph) == (
        "the NetworkX graph, attribute 'age', node 'bob': 'old' stands in a column that also holds "
        "numbers (30 in node 'ann'); correct it, or list the column in categorical."
    )
    graph.nodes["bob"]["age"] = {41}
    assert complaint(by_side, graph).startswith(
        "the NetworkX graph, attribute 'age': it holds Object; "
    )


def test_unknown_attributes_and_twin_names():
    assert complaint(by_side, friends(), label="sied") == (
        "unknown attribute of the NetworkX graph (label) 'sied': did you mean 'side'?"
    )
    assert complaint(by_side, nx.path_graph([1, "1"])) == (
        "two nodes of the NetworkX graph are called '1' when written as text; rename one."
    )
    assert complaint(by_side, nx.Graph()) == "the NetworkX graph has no nodes; add some."


def test_the_karate_club_trains(tmp_path):
    club = nx.karate_club_graph()
    nx.set_node_attributes(club, dict(club.degree), "degree")
    steps = nx.single_source_shortest_path_length(club, 0)
    nx.set_node_attributes(club, steps, "from the instructor")
    data = from_networkx(club, label="club", standardise=True)
    result = atoll.run(data=data, partition="metis", clients=2, rounds=30, out=tmp_path / "run")
    assert sum(client["nodes"] for client in result.per_client) == 34
    assert result.test_accuracy > 0.6
