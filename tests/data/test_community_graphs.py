import numpy as np
import pytest

from atoll.data.community_graphs import Figure1, Figure3
from atoll.errors import AtollError
from atoll.graph import Graph
from atoll.partition.natural import Natural
from atoll.rng import stream


def density(graph: Graph, first: np.ndarray, second: np.ndarray) -> float:
    """The share of node pairs from one set to another, disjoint one that are linked."""
    return float(graph.adjacency[first][:, second].mean())


@pytest.mark.parametrize(
    ("data", "subgraphs", "inside", "between"),
    [(Figure1(), (5, 5, 40), 0.5, 0.1), (Figure3(), (5, 15), 0.7, 0.01)],
)
def test_communities_of_subgraphs(data, subgraphs, inside, between):
    graph = data.load()
    assert graph.nodes == 30 * sum(subgraphs)
    assert np.bincount(graph.y).tolist() == [30 * count for count in subgraphs]
    first, second, last = np.arange(30), np.arange(30, 60), np.arange(graph.nodes - 30, graph.nodes)
    within = graph.adjacency[first][:, first].sum() / (30 * 29)
    assert within == pytest.approx(inside, abs=0.07)
    assert density(graph, first, second) == pytest.approx(inside, abs=0.07)
    assert density(graph, first, last) == pytest.approx(between, abs=0.04)


def test_each_subgraph_is_a_client_of_one_label():
    parties = Natural().cut(Figure1().load(), stream(0, "cut"))
    assert [party.nodes for party in parties] == [30] * 50
    labels = [set(party.y.tolist()) for party in parties]
    assert labels == [{0}] * 5 + [{1}] * 5 + [{2}] * 40
    assert parties[0].name == "fed-pub-figure-1 community 0 subgraph 0"


def test_signal_sets_communities_apart():
    for signal, apart in ((0.0, 0.0), (2.0, 2.0 * np.sqrt(2))):
        graph = Figure3(signal=signal, features=200).load()
        centres = np.stack([graph.x[graph.y == c].mean(axis=0) for c in (0, 1)])
        distance = np.sqrt(((centres[0] - centres[1]) ** 2).mean())
        assert distance == pytest.approx(apart, abs=0.3)


def test_impure_communities_have_every_label():
    graph = Figure3(purity=0.4).load()
    own = graph.y == np.repeat([0, 1], [150, 450])
    assert own.mean() == pytest.approx(0.4 + 0.6 / 2, abs=0.06)


def test_the_seed_decides():
    assert np.array_equal(Figure3().load().edges, Figure3().load().edges)
    assert not np.array_equal(Figure3().load().edges, Figure3(seed=1).load().edges)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subgraphs": ()}, r"data\.subgraphs"),
        ({"subgraphs": (3, 0)}, r"data\.subgraphs"),
        ({"inside": 1.1}, r"data\.inside is 1\.1"),
        ({"between": -0.1}, r"data\.between is -0\.1"),
        ({"purity": 1.5}, r"data\.purity is 1\.5"),
        ({"size": 0}, r"data\.size is 0"),
        ({"signal": -1.0}, r"data\.signal is -1"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(AtollError, match=message):
        Figure1(**options)
