"""Six nodes, two clients, one shared node: small enough to count by hand.

0 - 1 - 2 - 3 - 4 - 5   and the chord 0 - 2
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from atoll.graph import make_graph
from atoll.partition.statistics import PartitionStatistics, clustering_coefficient, jensen_shannon

EDGES = np.array([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 5, 2]])
Y = np.array([0, 0, 0, 1, 1, 1])


@pytest.fixture
def cut():
    whole = make_graph(
        np.eye(6, dtype=np.float32), EDGES, Y, ids=np.array([f"n{i}" for i in (3, 1, 4, 0, 5, 2)])
    )
    left, right = whole.subgraph(np.array([2, 0, 1, 3])), whole.subgraph(np.array([3, 5]))
    return PartitionStatistics(whole, [left, right])


def test_shared_nodes_and_missing_edges(cut):
    # Node 3 is held by both, node 4 by none; 3 - 4 and 4 - 5 are held by nobody.
    assert cut.anchors.tolist() == [False, False, False, True, False, False]
    assert cut.missing_edges == 2
    assert cut.missing.tolist() == [[0, 0], [0, 0]]
    left, right = cut.per_client
    assert (left["nodes"], right["nodes"]) == (4, 2)
    assert (left["edges"], right["edges"]) == (4, 0)
    assert (left["anchors"], right["anchors"]) == (1, 1)
    # Left misses 3 - 4; right misses 2 - 3, 3 - 4 and 4 - 5.
    assert (left["missing_edges"], right["missing_edges"]) == (1, 3)


def test_edges_lost_between_two_clients_are_counted_at_their_pair():
    whole = make_graph(np.eye(6, dtype=np.float32), EDGES, Y)
    parts = [whole.subgraph(np.arange(2)), whole.subgraph(np.arange(2, 6))]
    cut = PartitionStatistics(whole, parts)
    # 1 - 2 and 0 - 2
    assert cut.missing.tolist() == [[0, 2], [2, 0]]
    assert cut.missing_edges == 2


def test_clustering_coefficient():
    whole = make_graph(np.eye(6, dtype=np.float32), EDGES, Y)
    # Nodes 0 and 1: one pair, joined. Node 2: 1 of 3 pairs. The others: none.
    assert clustering_coefficient(whole) == pytest.approx((1 + 1 + 1 / 3) / 6)


def test_heterogeneity_is_the_median_jensen_shannon_distance(cut):
    left, right = np.array([3 / 4, 1 / 4]), np.array([0.0, 1.0])
    assert cut.heterogeneity == pytest.approx(jensenshannon(left, right))
    assert jensen_shannon(left, left) == 0


def test_connectivity_is_that_of_the_network_of_clients():
    whole = make_graph(np.eye(6, dtype=np.float32), EDGES, Y)
    two = PartitionStatistics(
        whole, [whole.subgraph(np.arange(2)), whole.subgraph(np.arange(2, 6))]
    )
    # Two linked clients: L = [[1, -1], [-1, 1]], lambda_2 = 2, and 1 / (2 * 2).
    assert two.connectivity == pytest.approx(0.25)
    apart = PartitionStatistics(
        whole, [whole.subgraph(np.arange(1)), whole.subgraph(np.arange(4, 6))]
    )
    assert apart.connectivity is None


def test_directed_edges_are_counted_one_by_one():
    """a -> b, b -> a, b -> c, c -> d; one client has a and b, the other c and d."""
    edges = np.array([[0, 1, 1, 2], [1, 0, 2, 3]])
    whole = replace(make_graph(np.eye(4), edges, np.zeros(4, dtype=np.int64)), edges=edges)
    parties = [whole.subgraph(np.array([0, 1])), whole.subgraph(np.array([2, 3]))]
    cut = PartitionStatistics(whole, parties)
    facts = cut.summary()
    assert facts["directed"]
    assert facts["edges"] == 4
    assert facts["missing_edges"] == 1
    assert cut.missing.tolist() == [[0, 0], [1, 0]]
    assert [row["edges"] for row in facts["per_client"]] == [2, 1]
    assert [row["missing_edges"] for row in facts["per_client"]] == [1, 1]
    assert cut.figures()["mean_degree"] == 1.0
    # a, b and c with c -> a would be a triangle; directions do not matter to it.
    closed = replace(whole, edges=np.array([[0, 1, 2], [1, 2, 0]]))
    assert clustering_coefficient(closed) == 3 / 4
