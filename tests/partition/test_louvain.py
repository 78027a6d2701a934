import numpy as np
import pytest
from small_graphs import cliques

from atoll.errors import AtollError
from atoll.partition.louvain import Louvain, louvain_communities
from atoll.rng import stream


def test_communities_are_the_cliques_largest_first():
    # 6 cliques of 5 and, apart from them, the 3 nodes of a path.
    ring = cliques(6, 5)
    community, count = louvain_communities(ring, 2, 1.0, stream(0, "cut"))
    assert count == 6
    assert all(len(set(community[c * 5 : c * 5 + 5].tolist())) == 1 for c in range(6))
    sizes = np.bincount(community)
    assert (np.diff(sizes) <= 0).all()


def test_whole_communities_are_dealt_out_in_equal_numbers():
    parties = Louvain(clients=3).cut(cliques(6, 5), stream(0, "cut"))
    for party in parties:
        clique = party.ids // 5
        assert party.nodes == 10
        assert sorted(np.bincount(clique, minlength=6).tolist()) == [0, 0, 0, 0, 5, 5]


def test_too_few_communities():
    with pytest.raises(AtollError, match="finds 4 communities in graph, fewer than 5 clients"):
        Louvain(clients=5).cut(cliques(4, 6), stream(0, "cut"))


def test_a_higher_resolution_finds_more():
    counts = [
        louvain_communities(cliques(4, 12), 1, resolution, stream(0, "cut"))[1]
        for resolution in (1.0, 30.0)
    ]
    assert counts[0] == 4 < counts[1]


def test_a_graph_without_edges_has_no_communities():
    lonely = cliques(2, 3).subgraph(np.array([0, 4]))
    with pytest.raises(AtollError, match="has no edges"):
        Louvain(clients=2).cut(lonely, stream(0, "cut"))


def test_resolution_is_positive():
    with pytest.raises(AtollError, match=r"partition\.resolution is 0"):
        Louvain(resolution=0.0)
