from dataclasses import replace

import numpy as np
import pytest
from small_graphs import cliques

from atoll.errors import AtollError
from atoll.graph import make_graph
from atoll.partition.topology_skew import TopologySkew
from atoll.rng import stream


def rings_and_cliques():
    """8 blocks of 8 nodes: four rings (degree 2), then four cliques (degree 7)."""
    edges = []
    for block in range(8):
        node = range(8 * block, 8 * block + 8)
        if block < 4:
            edges += [(8 * block + i, 8 * block + (i + 1) % 8) for i in range(8)]
        else:
            edges += [(u, v) for u in node for v in node if u < v]
    x = np.ones((64, 1), dtype=np.float32)
    return make_graph(x, np.array(edges).T, np.arange(64) // 8 % 2)


def mean_degree(party):
    return party.edges.shape[1] / party.nodes


def test_the_first_clients_are_sparse_and_the_last_dense():
    parties = TopologySkew(clients=4, parts=2).cut(rings_and_cliques(), stream(0, "cut"))
    assert [round(mean_degree(p)) for p in parties[2:]] == [7, 7]
    assert max(mean_degree(p) for p in parties[:2]) <= 2


def test_homophily():
    # In the first 4 cliques all nodes are of one class, in the others they alternate.
    graph = cliques(8, 8)
    node = np.arange(64)
    graph = replace(graph, y=np.where(node < 32, 0, node % 2), classes=2)
    parties = TopologySkew(clients=2, parts=4, by="homophily").cut(graph, stream(0, "cut"))
    alike = [(p.y[p.edges[0]] == p.y[p.edges[1]]).mean() for p in parties]
    assert alike[0] < 0.5
    assert alike[1] > 0.95


def test_without_skew_the_order_is_random():
    graph = rings_and_cliques()
    gaps = []
    for skew in (0.0, 1.0):
        cuts = [
            TopologySkew(clients=2, parts=4, skew=skew).cut(graph, stream(seed, "cut"))
            for seed in range(8)
        ]
        gaps.append(np.mean([mean_degree(b) - mean_degree(a) for a, b in cuts]))
    assert gaps[1] > 4
    assert abs(gaps[0]) < 2.5


def test_more_parts_than_nodes():
    with pytest.raises(AtollError, match=r"lower partition\.parts"):
        TopologySkew(clients=4, parts=10).cut(cliques(3, 6), stream(0, "cut"))
