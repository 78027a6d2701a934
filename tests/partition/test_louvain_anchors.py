import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_graphs import cliques, edge_set, few_examples, graphs, id_set, path

from atoll.partition.louvain_anchors import LouvainAnchors, with_anchors
from atoll.rng import stream


def test_both_ends_of_a_cut_edge_are_in_both_clients():
    # 0 - 1 - 2 | 3 - 4 - 5: nodes 2 and 3 are the anchors.
    first, second = with_anchors(path(6), np.array([0, 0, 0, 1, 1, 1]), 2, "induced")
    assert first.ids.tolist() == [0, 1, 2, 3]
    assert second.ids.tolist() == [3, 4, 5, 2]
    assert edge_set(first) == {(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)}
    assert edge_set(second) == {(2, 3), (3, 2), (3, 4), (4, 3), (4, 5), (5, 4)}


def test_an_edge_between_two_lent_nodes():
    # A triangle whose nodes 1 and 2 belong to client 1 and are both lent to client 0.
    triangle = cliques(2, 3).subgraph(np.array([0, 1, 2]))
    owner = np.array([0, 1, 1])
    induced, _ = with_anchors(triangle, owner, 2, "induced")
    own, _ = with_anchors(triangle, owner, 2, "own")
    assert (1, 2) in edge_set(induced)
    assert edge_set(own) == {(0, 1), (1, 0), (0, 2), (2, 0)}


@pytest.mark.parametrize("edges", ["induced", "own"])
@few_examples
@given(graph=graphs(), clients=st.integers(1, 4), seed=st.integers(0, 2**32))
def test_no_edge_is_lost_and_lent_nodes_are_the_neighbours(edges, graph, clients, seed):
    owner = np.random.default_rng(seed).integers(clients, size=graph.nodes)
    parties = with_anchors(graph, owner, clients, edges)
    assert set().union(*map(edge_set, parties)) == edge_set(graph)
    owner_of = dict(zip(graph.ids.tolist(), owner.tolist(), strict=True))
    for k, party in enumerate(parties):
        own = {entity for entity, o in owner_of.items() if o == k}
        neighbours = {v for u, v in edge_set(graph) if u in own} - own
        assert id_set(party) == own | neighbours
        if edges == "own":
            touching = {(u, v) for u, v in edge_set(graph) if k in (owner_of[u], owner_of[v])}
            assert edge_set(party) == touching


def test_communities_are_dealt_by_size_in_turn():
    # Cliques of 9, 8, 7, 6 and 5 nodes: clients own 9 + 7 + 5 and 8 + 6 of them.
    big = cliques(5, 9)
    sizes = [9, 8, 7, 6, 5]
    kept = np.concatenate([c * 9 + np.arange(size) for c, size in enumerate(sizes)])
    graph = big.subgraph(kept)
    parties = LouvainAnchors(clients=2, edges="own").cut(graph, stream(0, "cut"))
    first = np.bincount(parties[0].ids // 9, minlength=5)
    second = np.bincount(parties[1].ids // 9, minlength=5)
    assert (first[[0, 2, 4]] == [9, 7, 5]).all()
    assert (second[[1, 3]] == [8, 6]).all()


@pytest.mark.skipif(
    not os.environ.get("ATOLL_DATA"), reason="set ATOLL_DATA to the folder of real datasets"
)
@pytest.mark.parametrize(
    ("clients", "communities", "nodes", "edges"), [(4, 26, 859, 1582), (8, 13, 455, 804)]
)
def test_cora_is_cut_as_in_the_thesis(clients, communities, nodes, edges):
    from atoll.data import datasets
    from atoll.partition.louvain import louvain_communities

    cora = datasets["cora"](largest_component=False).load()
    _, found = louvain_communities(cora, clients, 1.0, stream(0, "cut"))
    parties = LouvainAnchors(clients=clients).cut(cora, stream(0, "cut"))
    assert found / clients == pytest.approx(communities, rel=0.05)
    assert np.mean([party.nodes for party in parties]) == pytest.approx(nodes, rel=0.05)
    assert np.mean([party.edges.shape[1] / 2 for party in parties]) == pytest.approx(
        edges, rel=0.06
    )


def test_communities_a_client():
    graph = cliques(6, 4)
    facts = LouvainAnchors(clients=3).statistics(graph, stream(0, "cut"))
    assert facts == {"communities": 2.0}
