from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from small_graphs import edge_set, few_examples, graphs, path

from atoll.graph import Holding
from atoll.partition.natural import Natural
from atoll.partition.network import client_network
from atoll.partition.random import Random
from atoll.rng import stream


def test_edges_between_neighbouring_runs_of_a_path():
    # 0 - 1 | 2 - 3 | 4 - 5, with the parties in another order.
    graph = path(6)
    parties = [graph.subgraph(np.array(nodes)) for nodes in ([4, 5], [0, 1], [3, 2])]
    assert client_network(graph, parties).toarray().tolist() == [[0, 0, 1], [0, 0, 1], [1, 1, 0]]


@few_examples
@given(graph=graphs(), seed=st.integers(0, 2**32))
def test_disjoint_parties_lose_what_runs_between_them(graph, seed):
    parties = Random(clients=4).cut(graph, stream(seed, "cut"))
    lost = len(edge_set(graph)) - sum(len(edge_set(party)) for party in parties)
    assert client_network(graph, parties).sum() == lost


def test_links_between_owners_follow_the_parties():
    # Three owners with 1, 3 and 2 data points; b is tied to a and c.
    points = path(6)
    points = replace(points, edges=np.empty((2, 0), dtype=np.int64))
    owners = (
        Holding("a", np.array([0]), links=("b",)),
        Holding("b", np.array([1, 2, 3]), links=("a", "c")),
        Holding("c", np.array([4, 5]), links=("b",)),
    )
    graph = replace(points, holdings=owners)
    parties = Natural().cut(graph, stream(0, "cut"))
    assert [party.nodes for party in parties] == [1, 3, 2]
    assert client_network(graph, parties).toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    largest = Natural(clients=2).cut(graph, stream(0, "cut"))
    assert client_network(graph, largest).toarray().tolist() == [[0, 1], [1, 0]]
