import numpy as np
import pytest
from small_graphs import cliques

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.partition.network import client_network
from atoll.partition.node_per_client import NodePerClient
from atoll.rng import stream


def test_client_k_holds_node_k_alone():
    graph = cliques(3, 4)
    parties = NodePerClient().cut(graph, stream(0, "cut"))
    assert [party.ids.tolist() for party in parties] == [[node] for node in range(12)]
    assert all(party.edges.shape == (2, 0) for party in parties)


def test_the_graph_is_the_network_among_clients():
    graph = cliques(3, 4)
    parties = NodePerClient().cut(graph, stream(0, "cut"))
    assert (client_network(graph, parties) != graph.adjacency).nnz == 0


def test_lone_nodes_make_a_cohort_that_propagates_nothing():
    parties = NodePerClient().cut(cliques(3, 4), stream(0, "cut"))
    cohort = Cohort(parties)
    assert cohort.sizes == (1,) * 12
    assert np.allclose(cohort.operator("gcn").csr.to_dense().numpy(), np.eye(12))
    assert cohort.labelled.tolist() == [float(party.train[0]) for party in parties]


def test_another_number_of_clients_is_refused():
    with pytest.raises(AtollError, match="each is a client"):
        NodePerClient(clients=5).cut(cliques(3, 4), stream(0, "cut"))
    assert len(NodePerClient(clients=12).cut(cliques(3, 4), stream(0, "cut"))) == 12
