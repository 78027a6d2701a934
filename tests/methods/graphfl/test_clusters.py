from dataclasses import replace

import numpy as np
import pytest

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.graph import make_graph, node_mask
from atoll.methods.graphfl.clusters import cluster_batch
from atoll.partition.clusters import clusters_of
from atoll.rng import CohortRng


def cliques(count=4, size=6, train=(0,)):
    """Cliques in a row, each joined to the next by one edge; feature: the clique's number."""
    edges = [
        (c * size + i, c * size + j) for c in range(count) for i in range(size) for j in range(i)
    ]
    edges += [(c * size, (c + 1) * size) for c in range(count - 1)]
    clique = np.repeat(np.arange(count), size)
    graph = make_graph(clique[:, None].astype(np.float32), np.array(edges).T, clique % 2)
    return replace(graph, train=node_mask(np.array(train, dtype=int), graph.nodes))


def drawn_cliques(batch):
    return [set(np.asarray(g.x)[:, 0].astype(int).tolist()) for g in batch.graphs]


def rng(clients=(0,), round=1):
    return CohortRng(0, clients, round, "step")


def test_clusters_are_the_cliques_and_found_once():
    graph = cliques()
    owner, members = clusters_of(graph, 4, 0)
    assert all(len(set(owner[c * 6 : c * 6 + 6])) == 1 for c in range(4))
    assert sorted(nodes.tolist() for nodes in members) == [
        list(range(s, s + 6)) for s in (0, 6, 12, 18)
    ]
    assert clusters_of(graph, 4, 0)[0] is owner
    assert (clusters_of(graph, 1, 0)[0] == 0).all()


def test_a_batch_is_the_graph_induced_on_clusters_with_training_nodes():
    batch = cluster_batch(Cohort([cliques(train=(7,))]), 4, 1, rng())
    assert drawn_cliques(batch) == [{1}]
    assert batch.graphs[0].edges.shape[1] == 6 * 5
    assert batch.graphs[0].train.sum() == 1


def test_edges_between_the_clusters_of_a_batch_are_there():
    batch = cluster_batch(Cohort([cliques(train=(0, 7))]), 4, 2, rng())
    assert drawn_cliques(batch) == [{0, 1}]
    assert batch.graphs[0].edges.shape[1] == 2 * (6 * 5 + 1)


def test_batches_vary_and_belong_to_the_client_not_its_position():
    graph = cliques(train=(0, 7, 13, 19))
    rounds = [cluster_batch(Cohort([graph]), 4, 1, rng(round=r)) for r in range(12)]
    assert set.union(*(drawn_cliques(batch)[0] for batch in rounds)) == {0, 1, 2, 3}
    both = drawn_cliques(cluster_batch(Cohort([graph] * 2, [3, 5]), 4, 1, rng((3, 5))))
    alone = drawn_cliques(cluster_batch(Cohort([graph], [5]), 4, 1, rng((5,))))
    assert both[1] == alone[0]


def test_a_client_without_training_nodes_still_gets_a_batch():
    assert len(drawn_cliques(cluster_batch(Cohort([cliques(train=())]), 4, 1, rng()))[0]) == 1


def test_more_clusters_than_nodes():
    with pytest.raises(AtollError, match="24 nodes and can't be divided into 25 clusters"):
        clusters_of(cliques(), 25, 0)
