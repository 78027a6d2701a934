import numpy as np
import pytest
from scipy import sparse

from atoll.data import datasets
from atoll.data.csbm import DeterministicNodes
from atoll.errors import AtollError


@pytest.mark.parametrize(
    ("name", "options", "phi"),
    [
        ("csbm-dnc", {}, 0.78),
        ("csbm-snc", {}, 0.78),
        ("csbm-sc", {}, 0.96),
        ("csbm-sc", {"nodes": 40, "feature_signal": 1.0, "community_signal": 2.0}, 0.574),
    ],
)
def test_phi_is_the_papers(name, options, phi):
    assert datasets[name](**options).phi == pytest.approx(phi, abs=0.005)


def test_links_follow_the_block_model():
    # N = 2000, d = 20, lambda = 2: c_in = 20 + 2 sqrt(20) = 28.9, c_out = 11.1, each over N.
    blocks = DeterministicNodes(nodes=2000, degree=20.0).blocks()
    like = blocks.sign[blocks.edges[0]] == blocks.sign[blocks.edges[1]]
    plus = (blocks.sign > 0).sum()
    pairs_like = plus * (plus - 1) + (2000 - plus) * (1999 - plus)
    pairs_unlike = 2 * plus * (2000 - plus)
    assert plus == pytest.approx(1000, abs=80)
    assert like.sum() / pairs_like == pytest.approx(28.944 / 2000, rel=0.03)
    assert (~like).sum() / pairs_unlike == pytest.approx(11.056 / 2000, rel=0.03)


def test_features_are_signal_and_noise():
    data = DeterministicNodes(nodes=1000, feature_signal=100.0)
    graph, u = data.load(), data.direction()
    sign = np.where(graph.y == 1, 1, -1)
    mean = (sign[:, None] * graph.x).mean(axis=0)
    assert mean == pytest.approx(np.sqrt(100 / 1000) * u, abs=0.02)
    noise = graph.x - np.sqrt(100 / 1000) * np.outer(sign, u)
    assert noise.std() == pytest.approx(1 / np.sqrt(100), rel=0.01)


@pytest.mark.parametrize("graph_seed", range(5))
def test_training_nodes_are_balanced_and_connected(graph_seed):
    graph = DeterministicNodes(graph_seed=graph_seed).load()
    assert (graph.nodes, graph.features, graph.classes) == (200, 100, 2)
    assert [int(m.sum()) for m in (graph.train, graph.val, graph.test)] == [20, 20, 160]
    assert (graph.train.astype(int) + graph.val + graph.test == 1).all()
    assert np.bincount(graph.y[graph.train]).tolist() == [10, 10]
    among = graph.subgraph(np.flatnonzero(graph.train)).adjacency
    assert sparse.csgraph.connected_components(among, directed=False)[0] == 1


def test_a_new_seed_changes_the_features_and_nothing_else():
    first, second = DeterministicNodes(seed=0).load(), DeterministicNodes(seed=1).load()
    assert (first.x != second.x).any()
    for what in ("edges", "y", "train", "val", "test"):
        assert np.array_equal(getattr(first, what), getattr(second, what))
    assert np.array_equal(DeterministicNodes(seed=1).load().x, second.x)
    assert not np.array_equal(DeterministicNodes(graph_seed=1).load().edges, first.edges)


def test_connected_networks_on_request():
    sparse_network = {"nodes": 60, "degree": 4.0, "community_signal": 1.0}
    seeds = range(8)
    assert not all(
        DeterministicNodes(graph_seed=s, **sparse_network).blocks().connected for s in seeds
    )
    assert all(
        DeterministicNodes(graph_seed=s, connected=True, **sparse_network).blocks().connected
        for s in seeds
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 1}, r"data\.nodes is 1"),
        ({"nodes": 20_000}, "for larger graphs there is 'communities'"),
        ({"degree": 3.0}, "make a link probability of"),
        ({"degree": 150.0, "community_signal": 10.0}, "make a link probability of"),
        ({"features": 0}, r"data\.features is 0"),
        ({"feature_signal": -1.0}, r"data\.feature_signal is -1"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(AtollError, match=message):
        DeterministicNodes(**options)


def test_a_network_that_is_never_connected():
    with pytest.raises(AtollError, match=r"none is connected; raise data\.degree"):
        DeterministicNodes(nodes=100, degree=0.5, community_signal=0.0, connected=True).blocks()


def test_the_network_may_follow_the_seed():
    """As with that network named, so that a repetition on a network of its own is one of it."""
    for seed in (0, 3):
        own = DeterministicNodes(seed=seed, graph_seed=-1).load()
        named = DeterministicNodes(seed=seed, graph_seed=seed).load()
        for what in ("edges", "y", "x", "train", "val", "test"):
            assert np.array_equal(getattr(own, what), getattr(named, what))
    first, second = (DeterministicNodes(seed=s, graph_seed=-1).blocks() for s in (0, 1))
    assert first.edges.shape != second.edges.shape or (first.edges != second.edges).any()
