import numpy as np
import pytest

from atoll.data.csbm_points import StochasticNodes, SupervisedClients
from atoll.errors import AtollError
from atoll.partition.natural import Natural
from atoll.partition.network import client_network
from atoll.rng import stream


def test_a_stochastic_client_holds_forty_points_of_one_class_and_one_split():
    data = StochasticNodes()
    graph = data.load()
    assert (graph.nodes, graph.features) == (200 * 40, 100)
    parties = Natural().cut(graph, stream(0, "cut"))
    assert len(parties) == 200
    for party in parties:
        assert party.nodes == 40
        assert len(set(party.y.tolist())) == 1
        assert {bool(split.all()) for split in (party.train, party.val, party.test)} == {
            True,
            False,
        }
    roles = [sum(getattr(p, split).all() for p in parties) for split in ("train", "val", "test")]
    assert roles == [20, 20, 160]
    assert np.bincount([p.y[0] for p in parties if p.train.all()]).tolist() == [10, 10]


def test_a_supervised_client_holds_ten_ten_and_a_hundred_points_of_both_classes():
    data = SupervisedClients()
    graph = data.load()
    sign = data.blocks().sign
    parties = Natural().cut(graph, stream(0, "cut"))
    assert len(parties) == 50
    share_of_ones = np.array([party.y.mean() for party in parties])
    assert share_of_ones[sign > 0].mean() == pytest.approx(0.7, abs=0.03)
    assert share_of_ones[sign < 0].mean() == pytest.approx(0.3, abs=0.03)
    for party in parties:
        assert [int(s.sum()) for s in (party.train, party.val, party.test)] == [10, 10, 100]


@pytest.mark.parametrize("data", [StochasticNodes(nodes=60, points=3), SupervisedClients()])
def test_the_network_of_clients_can_be_had_from_the_parties(data):
    graph = data.load()
    parties = Natural().cut(graph, stream(0, "cut"))
    assert (client_network(graph, parties) != data.blocks().adjacency).nnz == 0


def test_noise_of_deshpande_or_by_the_letter():
    for noise, deviation in (("sqrt-p", 0.1), ("p", 0.01)):
        graph = SupervisedClients(feature_signal=0.0, noise=noise).load()
        assert graph.x.std() == pytest.approx(deviation, rel=0.01)


def test_features_lean_towards_the_points_label():
    data = SupervisedClients(feature_signal=5.0)
    graph = data.load()
    along = graph.x @ data.direction() / (data.direction() @ data.direction())
    # sqrt(mu / N) = sqrt(5 / 50)
    assert along[graph.y == 1].mean() == pytest.approx(np.sqrt(0.1), abs=0.01)
    assert along[graph.y == 0].mean() == pytest.approx(-np.sqrt(0.1), abs=0.01)


@pytest.mark.parametrize(
    ("degree", "paper"), [(25, 1.76e-3), (15, 4.17e-3), (10, 1.09e-2), (5, 7.52e-2)]
)
def test_connectivity_by_degree_is_the_papers(degree, paper):
    values = [
        SupervisedClients(
            nodes=40, feature_signal=1.0, community_signal=2.0, degree=degree, graph_seed=seed
        ).connectivity()
        for seed in range(10)
    ]
    assert min(values) < paper < max(values)


def test_too_few_points():
    with pytest.raises(AtollError, match=r"data\.points is 2"):
        SupervisedClients(points=2)
    with pytest.raises(AtollError, match=r"data\.points is 0"):
        StochasticNodes(points=0)
