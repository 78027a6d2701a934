from dataclasses import replace

import numpy as np
import pytest
from small_graphs import edge_set, path

from atoll.errors import AtollError
from atoll.graph import Holding
from atoll.partition.natural import Natural
from atoll.rng import stream


def owned_path():
    # 0 - 1 - 2 - 3 - 4: a holds 0 and 1, b holds 1 to 4 but does not know of the edge 2 - 3.
    graph = path(5)
    known = [
        column for column, (u, v) in enumerate(graph.edges.T.tolist()) if {u, v} in ({1, 2}, {3, 4})
    ]
    owners = (
        Holding("a", np.array([0, 1])),
        Holding("b", np.array([1, 2, 3, 4]), np.array(known)),
    )
    return replace(graph, holdings=owners)


def test_each_owner_has_its_nodes_and_edges_in_the_order_of_the_data():
    a, b = Natural().cut(owned_path(), stream(0, "cut"))
    assert a.name == "graph a"
    assert a.ids.tolist() == [0, 1]
    assert edge_set(a) == {(0, 1), (1, 0)}
    assert edge_set(b) == {(1, 2), (2, 1), (3, 4), (4, 3)}


def test_a_number_of_clients_takes_the_largest_first():
    assert [g.name for g in Natural(clients=2).cut(owned_path(), stream(0, "cut"))] == [
        "graph b",
        "graph a",
    ]


def test_only_the_largest():
    (b,) = Natural(clients=1).cut(owned_path(), stream(0, "cut"))
    assert b.name == "graph b"


def test_no_owners_or_too_few():
    with pytest.raises(AtollError, match="does not know who owns its nodes"):
        Natural().cut(path(5), stream(0, "cut"))
    with pytest.raises(AtollError, match="has 2 owners, fewer than 3"):
        Natural(clients=3).cut(owned_path(), stream(0, "cut"))
