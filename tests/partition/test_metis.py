import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from small_graphs import cliques, edge_set, few_examples, graphs, id_set

from atoll.errors import AtollError
from atoll.partition.metis import Metis
from atoll.rng import stream


def test_cuts_a_ring_of_cliques_at_its_ties():
    parties = Metis(clients=4).cut(cliques(4, 8), stream(0, "cut"))
    found = sorted(sorted(party.ids.tolist()) for party in parties)
    assert found == [list(range(c * 8, c * 8 + 8)) for c in range(4)]
    assert all(party.edges.shape[1] == 8 * 7 for party in parties)


@few_examples
@given(graph=graphs(smallest=20, largest=30), clients=st.integers(2, 4), seed=st.integers(0, 2**32))
def test_parts_are_disjoint_and_balanced(graph, clients, seed):
    try:
        parties = Metis(clients=clients).cut(graph, stream(seed, "cut"))
    except AtollError:
        assume(False)
    assert sum(party.nodes for party in parties) == graph.nodes
    assert set.union(*map(id_set, parties)) == id_set(graph)
    # On parts of 20 to 90 nodes, METIS misses its tolerance of 3 % by a few nodes.
    assert max(party.nodes for party in parties) <= graph.nodes / clients + 4


@pytest.mark.parametrize("clients", [7, 9, 10, 16])
def test_larger_parts_keep_to_the_tolerance(clients):
    graph = cliques(80, 25)
    parties = Metis(clients=clients).cut(graph, stream(0, "cut"))
    assert max(party.nodes for party in parties) <= 1.03 * graph.nodes / clients + 1


def test_one_client_holds_everything():
    graph = cliques(2, 4)
    (party,) = Metis(clients=1).cut(graph, stream(0, "cut"))
    assert edge_set(party) == edge_set(graph)
