"""Objects that people hold in memory are data as they are."""

from types import SimpleNamespace

import networkx
import numpy as np
import pytest
from complaints import complaint

import atoll
from atoll.data import from_graph, from_pyg
from atoll.data.as_dataset import as_dataset
from small_federations import community_parties


def ring(nodes=24, directed=False):
    source = np.arange(nodes)
    edges = np.stack([source, (source + 1) % nodes])
    if not directed:
        edges = np.concatenate([edges, edges[::-1]], axis=1)
    return SimpleNamespace(
        x=np.eye(nodes, 4) + np.arange(nodes)[:, None] % 2,
        edge_index=edges,
        y=np.arange(nodes) % 2,
        bank=np.repeat(["east", "west"], nodes // 2),
    )


def test_pyg_data_keeps_its_directions():
    assert as_dataset(ring()).load().undirected
    assert as_dataset(ring(directed=True)).load().edges.shape == (2, 24)
    assert not as_dataset(ring(directed=True)).load().undirected


def test_networkx_graphs_keep_their_directions():
    for kind, columns in ((networkx.Graph, 2), (networkx.DiGraph, 1)):
        graph = kind([("a", "b")])
        networkx.set_node_attributes(graph, {"a": "x", "b": "y"}, "label")
        networkx.set_node_attributes(graph, 1.0, "age")
        assert as_dataset(graph).load().edges.shape == (2, columns)


def test_a_run_takes_real_pyg_data_as_it_is():
    data = pytest.importorskip("torch_geometric.data")
    torch = pytest.importorskip("torch")
    plain = ring()
    given = data.Data(
        x=torch.tensor(plain.x), edge_index=torch.tensor(plain.edge_index), y=torch.tensor(plain.y)
    )
    options = {"partition": "metis", "clients": 2, "rounds": 2, "seed": 1}
    ours, wrapped = (atoll.run(data=d, **options) for d in (given, from_pyg(given)))
    assert ours.test_accuracy == wrapped.test_accuracy


def test_owners_of_an_object_are_named_like_a_column():
    result = atoll.run(data=ring(), owner="bank", rounds=1)
    assert len(result.per_client) == 2
    assert "has no 'hospital' to be the owner" in complaint(
        atoll.run, data=ring(), owner="hospital", rounds=1
    )
    graph = networkx.path_graph(20)
    for node in graph:
        graph.nodes[node].update(label=node % 2, age=node, bank="ab"[node // 10])
    assert len(atoll.run(data=graph, owner="bank", rounds=1).per_client) == 2


def test_graphs_and_datasets_are_taken_too():
    graph = community_parties()[0]
    assert as_dataset(graph).load() is graph
    dataset = from_graph(graph)
    assert as_dataset(dataset) is dataset
    for given in (graph, dataset):
        with pytest.raises(TypeError, match="owner"):
            as_dataset(given, "bank")


def test_a_refusal_says_where_options_of_an_object_are_set():
    graph = networkx.path_graph(4)
    networkx.set_node_attributes(graph, "x", "club")
    said = complaint(as_dataset, graph)
    assert "has no attribute 'label'; set label to the one that plays its part" in said
    assert said.endswith("those of data=atoll.data.from_networkx(graph, ...).")


def test_what_is_no_graph_is_refused():
    assert "data is a list, which is no graph; give a dataset's name" in complaint(
        atoll.run, data=[1, 2]
    )
