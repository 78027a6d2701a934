import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_graphs import cliques, edge_set, few_examples, graphs, id_set

from atoll.errors import AtollError
from atoll.partition.ring_overlap import RingOverlap
from atoll.rng import stream


def test_neighbours_share_a_fraction_of_their_nodes():
    # 70 nodes, 10 clients: arcs of 7 and 7 * 0.3 / 0.7 = 3 more make 10, of which 3 are shared.
    parties = RingOverlap(clients=10, gamma=0.3).cut(cliques(10, 7), stream(0, "cut"))
    assert [party.nodes for party in parties] == [10] * 10
    for k, party in enumerate(parties):
        for j, other in enumerate(parties):
            apart = min((k - j) % 10, (j - k) % 10)
            shared = len(id_set(party) & id_set(other))
            assert shared == {0: 10, 1: 3}.get(apart, 0)


@few_examples
@given(
    graph=graphs(),
    clients=st.integers(1, 7),
    gamma=st.floats(0, 0.5),
    seed=st.integers(0, 2**32),
)
def test_any_ring(graph, clients, gamma, seed):
    parties = RingOverlap(clients=clients, gamma=gamma).cut(graph, stream(seed, "cut"))
    assert set.union(*map(id_set, parties)) == id_set(graph)
    for k, party in enumerate(parties):
        held = id_set(party)
        assert edge_set(party) == {(u, v) for u, v in edge_set(graph) if u in held and v in held}
        for j, other in enumerate(parties[:k]):
            shared = len(held & id_set(other))
            if min(k - j, clients - k + j) > 1:
                assert shared == 0
            else:
                # Arcs of unequal length and rounding down make up to two nodes of difference.
                assert abs(shared - gamma * party.nodes) <= 2


def test_two_clients_meet_once():
    # 12 nodes: arcs of 6 and 6 * 0.5 / 1.5 = 2 more make 8, of which 4 are common.
    parties = RingOverlap(clients=2, gamma=0.5).cut(cliques(4, 3), stream(0, "cut"))
    assert [party.nodes for party in parties] == [8, 8]
    assert len(id_set(parties[0]) & id_set(parties[1])) == 4


@pytest.mark.parametrize("gamma", [-0.1, 0.6])
def test_bad_fractions(gamma):
    with pytest.raises(AtollError, match=r"partition\.gamma"):
        RingOverlap(gamma=gamma)
