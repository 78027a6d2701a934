import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_graphs import cliques, edge_set, few_examples, graphs, id_set

from atoll.errors import AtollError
from atoll.graph import make_graph
from atoll.partition.public_nodes import PublicNodes
from atoll.rng import stream


def test_the_papers_numbers_on_a_graph_as_large_as_cora():
    n = 2708
    lonely = make_graph(np.zeros((n, 1), np.float32), np.empty((2, 0), int), np.zeros(n, int))
    parties = PublicNodes().cut(lonely, stream(0, "cut"))
    common = set.intersection(*map(id_set, parties))
    assert len(common) == 1083
    # 4 * 406 = 1,624 of the 1,625 others; the paper leaves one out.
    assert [party.nodes - 1083 for party in parties] == [407, 406, 406, 406]


@pytest.mark.parametrize("choose", ["random", "top-degree"])
@few_examples
@given(
    graph=graphs(),
    clients=st.integers(2, 5),
    share=st.sampled_from([0.0, 0.05, 0.1, 0.4, 1.0]),
    seed=st.integers(0, 2**32),
)
def test_what_any_two_clients_share_is_the_public_set(choose, graph, clients, share, seed):
    scheme = PublicNodes(clients=clients, public=share, choose=choose)
    parties = [*scheme.cut(graph, stream(seed, "cut"))]
    public = set.intersection(*map(id_set, parties))
    assert len(public) == int(share * graph.nodes + 1e-9)
    for i, first in enumerate(parties):
        for second in parties[:i]:
            assert id_set(first) & id_set(second) == public
    sizes = [party.nodes for party in parties]
    assert max(sizes) - min(sizes) <= 1
    assert set.union(*map(id_set, parties)) == id_set(graph)
    for party in parties:
        held = id_set(party)
        assert edge_set(party) == {(u, v) for u, v in edge_set(graph) if u in held and v in held}


def test_top_degree_nodes_are_public():
    # Two stars: centres 0 and 1 with 5 and 4 leaves.
    star = [(0, leaf) for leaf in range(2, 7)] + [(1, leaf) for leaf in range(7, 11)]
    graph = make_graph(np.zeros((11, 1), np.float32), np.array(star).T, np.zeros(11, int))
    parties = PublicNodes(clients=3, public=2 / 11, choose="top-degree").cut(graph, stream(0, "c"))
    assert set.intersection(*map(id_set, parties)) == {0, 1}
    assert [party.nodes for party in parties] == [5, 5, 5]


def test_a_private_share_leaves_the_other_nodes_out():
    scheme = PublicNodes(clients=4, public=0.05, private=0.15, choose="top-degree")
    parties = scheme.cut(cliques(10, 10), stream(0, "cut"))
    assert [party.nodes for party in parties] == [20] * 4
    assert len(set.union(*map(id_set, parties))) == 65


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"public": 1.2}, r"partition\.public is 1\.2"),
        ({"private": -0.1}, r"partition\.private is -0\.1"),
        ({"public": 0.5, "private": 0.15}, "more than all nodes"),
        ({"public": 0.05, "hubs": 0.1}, r"partition\.hubs \(0\.1\) is above"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(AtollError, match=message):
        PublicNodes(**options)


def test_hubs_are_a_part_of_the_public_nodes_and_the_others_are_drawn():
    # Two stars: centres 0 and 1 with 5 and 4 leaves.
    star = [(0, leaf) for leaf in range(2, 7)] + [(1, leaf) for leaf in range(7, 11)]
    graph = make_graph(np.zeros((11, 1), np.float32), np.array(star).T, np.zeros(11, int))
    scheme = PublicNodes(clients=3, public=5 / 11, hubs=2 / 11)
    drawn = []
    for seed in range(5):
        parties = scheme.cut(graph, stream(seed, "c"))
        public = set.intersection(*map(id_set, parties))
        assert len(public) == 5
        assert public >= {0, 1}
        assert set.union(*map(id_set, parties)) == set(range(11))
        drawn.append(frozenset(public))
    assert len(set(drawn)) > 1
    plain = PublicNodes(clients=3, public=5 / 11).cut(graph, stream(0, "c"))
    none = PublicNodes(clients=3, public=5 / 11, hubs=0.0).cut(graph, stream(0, "c"))
    assert [id_set(a) for a in plain] == [id_set(b) for b in none]
