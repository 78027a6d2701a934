import numpy as np
import pytest

from atoll.data.communities import Communities
from atoll.errors import AtollError
from atoll.partition.natural import Natural
from atoll.rng import stream

SMALL = Communities(nodes=10_001, degree=12.0, communities=10, features=4, classes=5)


def test_degree_and_communities_are_as_asked():
    graph = SMALL.load()
    assert graph.nodes == 10_001
    assert graph.undirected
    assert graph.edges.shape[1] / graph.nodes == pytest.approx(12.0, rel=0.02)
    community = np.empty(graph.nodes, dtype=int)
    for c, holding in enumerate(graph.holdings):
        community[holding.nodes] = c
    assert set(np.bincount(community).tolist()) == {1000, 1001}
    assert (graph.y == community % 5).all()
    # 80 % inside by choice, and a tenth of the others by chance.
    kept = (community[graph.edges[0]] == community[graph.edges[1]]).mean()
    assert kept == pytest.approx(0.8 + 0.2 / 10, abs=0.01)


def test_features_gather_round_their_class():
    graph = Communities(nodes=20_000, communities=4, classes=2, features=8, signal=3.0).load()
    centres = [graph.x[graph.y == c].mean(axis=0) for c in (0, 1)]
    assert graph.x.dtype == np.float32
    assert np.abs(centres[0] - centres[1]).max() > 1
    assert (graph.x[graph.y == 0] - centres[0]).std() == pytest.approx(1.0, rel=0.02)


def test_communities_are_natural_parties():
    parties = Natural().cut(SMALL.load(), stream(0, "cut"))
    assert sum(party.nodes for party in parties) == 10_001
    assert len(parties) == 10


def test_the_seed_decides():
    same = Communities(nodes=1_000, communities=40, features=2)
    assert np.array_equal(same.load().edges, same.load().edges)
    other = Communities(nodes=1_000, communities=40, features=2, seed=1)
    assert not np.array_equal(same.load().edges, other.load().edges)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 0}, r"data\.nodes is 0"),
        ({"communities": 10}, "must be from 40"),
        ({"nodes": 50}, "to 50"),
        ({"degree": 0.0}, r"data\.degree is 0"),
        ({"inside": 2.0}, r"data\.inside is 2"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(AtollError, match=message):
        Communities(**options)
