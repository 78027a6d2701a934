"""Noise and gaps at a rate, on graphs whose counts one can work out."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import sparse

from atoll.data.base import Dataset
from atoll.data.disturb import _numbers, _pairs, with_added_edges
from atoll.data.stress import IN_DATA, Stress
from atoll.errors import AtollError
from atoll.graph import Graph, make_graph
from atoll.rng import stream
from atoll.tasks.links import LinkPrediction
from option_bounds import numbers_without_bounds, outside, refused_in_one_sentence

NODES = 40


def ring(x=None, weights=None, undirected: bool = True) -> Graph:
    """40 nodes in a ring of 40 edges, 4 classes; 20 nodes train, 10 validate, 10 test."""
    node = np.arange(NODES)
    if x is None:
        x = np.ones((NODES, 5), dtype=np.float32) * np.arange(NODES)[:, None]
    graph = make_graph(x, np.stack([node, (node + 1) % NODES]), node % 4)
    if not undirected:
        graph = replace(graph, edges=graph.edges[:, graph.edges[0] < graph.edges[1]])
    if weights is not None:
        graph = replace(graph, weights=weights(graph.edges))
    return replace(graph, train=node < 20, val=(node >= 20) & (node < 30), test=node >= 30)


def stressed(graph: Graph, seed: int = 0, client: int = 0, **rates: float) -> Graph:
    return Stress(**rates).disturbed(graph, seed, client)


def pairs(graph: Graph) -> set[tuple[int, int]]:
    return set(zip(*graph.edges.tolist(), strict=True))


def same(one: Graph, other: Graph) -> bool:
    arrays = [(one.edges, other.edges), (one.y, other.y), (one.train, other.train)]
    return all(np.array_equal(a, b) for a, b in arrays) and (one.x != other.x).sum() == 0


def test_a_share_of_the_edges_goes_both_directions_together():
    worse = stressed(ring(), edge_drop=0.25)
    assert worse.edge_count == 30
    assert worse.undirected
    assert pairs(worse) < pairs(ring())


def test_directed_edges_are_dropped_one_by_one():
    graph = ring(undirected=False)  # 39 forward edges and the one from 0 to 39
    assert stressed(graph, edge_drop=0.5).edges.shape[1] == 20


def test_added_edges_are_new_and_weigh_the_mean():
    graph = ring(weights=lambda edges: np.where(edges.sum(0) % 2, 1.0, 3.0))
    worse = stressed(graph, edge_add=0.5)
    assert worse.edge_count == 60
    assert worse.symmetric
    new = [(u, v) not in pairs(graph) for u, v in worse.edges.T.tolist()]
    assert np.sum(new) == 40
    assert (worse.edges[0] != worse.edges[1]).all()
    assert np.allclose(worse.weights[new], graph.weights.mean())
    kept = dict(zip(map(tuple, graph.edges.T.tolist()), graph.weights, strict=True))
    for pair, weight, is_new in zip(worse.edges.T.tolist(), worse.weights, new, strict=True):
        assert is_new or kept[tuple(pair)] == weight


@pytest.mark.parametrize("undirected", [True, False])
def test_a_full_graph_has_no_room_for_more(undirected):
    every = np.array([(u, v) for u in range(5) for v in range(5) if u < v]).T
    graph = make_graph(np.ones((5, 1), dtype=np.float32), every[:, 2:], np.arange(5) % 2)
    if not undirected:
        graph = replace(graph, edges=every[:, 2:])
    full = with_added_edges(graph, 10.0, stream(0, "test"))
    assert len(pairs(full)) == 20
    assert with_added_edges(full, 1.0, stream(0, "test")).edges.shape == full.edges.shape


@pytest.mark.parametrize("undirected", [True, False])
def test_pairs_are_numbered_without_gaps(undirected):
    graph = replace(ring(), edges=ring().edges if undirected else np.array([[0], [1]]))
    count = NODES * (NODES - 1) // (2 if undirected else 1)
    both = _pairs(graph, np.arange(count))
    assert len({tuple(sorted(p) if undirected else p) for p in both.T.tolist()}) == count
    assert np.array_equal(_numbers(graph, both), np.arange(count))


def test_large_pairs_survive_the_square_root():
    n = 3_000_000
    graph = Graph(
        x=sparse.csr_array((n, 1)), edges=np.zeros((2, 0), dtype=np.int64), y=np.full(n, -1),
        classes=1, train=np.zeros(n, bool), val=np.zeros(n, bool), test=np.zeros(n, bool),
        ids=np.arange(n),
    )  # fmt: skip
    ends = np.array([[0, n - 2, 0, 12345], [n - 1, n - 1, n - 2, n - 7]])
    assert np.array_equal(_pairs(graph, _numbers(graph, ends)), ends)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_a_share_of_the_features_that_are_not_zero_goes(make):
    x = np.zeros((NODES, 5), dtype=np.float32)
    x[:, :2] = np.arange(1, NODES + 1)[:, None]
    worse = stressed(ring(make(x)), feature_drop=0.25).x
    assert sparse.issparse(worse) == (make is sparse.csr_array)
    found = worse.toarray() if sparse.issparse(worse) else worse
    assert np.count_nonzero(found) == 60
    assert (found[found != 0] == x[found != 0]).all()


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_noise_is_in_units_of_each_feature_and_a_constant_one_gets_none(make):
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((2000, 3)) * [1.0, 100.0, 0.0] + 5).astype(np.float32)
    graph = make_graph(make(x), np.array([[0], [1]]), np.arange(2000) % 2)
    noise = stressed(graph, feature_noise=0.5).x - x
    assert noise.dtype == np.float32
    assert noise.std(axis=0) == pytest.approx([0.5, 50, 0], rel=0.05)


def test_labels_are_dropped_or_wrong_among_training_nodes_only():
    graph = ring()
    fewer = stressed(graph, label_drop=0.25)
    assert fewer.train.sum() == 15
    assert (fewer.y == -1).sum() == 5
    assert (fewer.y[20:] == graph.y[20:]).all()
    wrong = stressed(graph, label_noise=0.25)
    assert (wrong.y != graph.y)[:20].sum() == 5
    assert (wrong.y[20:] == graph.y[20:]).all()
    assert np.array_equal(wrong.train, graph.train)


def test_one_training_label_is_left():
    assert stressed(ring(), label_drop=1.0).train.sum() == 1


def test_a_node_that_trains_and_tests_keeps_its_label():
    both = replace(ring(), test=np.ones(NODES, dtype=bool))
    for rates in ({"label_drop": 1.0}, {"label_noise": 1.0}):
        assert np.array_equal(stressed(both, **rates).y, both.y)


def test_kinds_of_stress_are_drawn_apart():
    graph = ring()
    alone = stressed(graph, label_noise=0.5)
    together = stressed(graph, label_noise=0.5, edge_drop=0.5, feature_noise=1.0)
    assert np.array_equal(alone.y, together.y)


def test_a_client_is_disturbed_the_same_whoever_else_there_is():
    graphs = [ring(), ring(), ring()]
    stress = Stress(edge_drop=0.3, label_noise=0.3)
    all_three, again = stress.on(graphs, 7), stress.on(graphs[:2], 7)
    assert same(all_three[1], again[1])
    assert not same(all_three[0], all_three[1])
    assert not same(all_three[0], stress.on(graphs, 8)[0])


@pytest.mark.parametrize(("share", "count"), [(0.3, 3), (0.01, 1), (1.0, 10)])
def test_a_share_of_the_clients(share, count):
    graphs = [ring()] * 10
    stress = Stress(edge_drop=0.5, clients=share)
    worse = stress.on(graphs, 0)
    hit = {k for k, graph in enumerate(worse) if graph is not graphs[k]}
    assert hit == stress.chosen(10, 0)
    assert len(hit) == count


def test_edges_are_added_within_small_graphs():
    node = np.arange(NODES)  # ten paths of four nodes, each with a label at its first one
    edges = np.stack([node[:-1], node[1:]])[:, node[1:] % 4 != 0]
    first = node % 4 == 0
    y = np.where(first, node // 4 % 2, -1)
    graph = make_graph(np.ones((NODES, 2), dtype=np.float32), edges, y, classes=2)
    graph = replace(graph, graph_of=node // 4, train=first & (node < 20), test=first & (node >= 20))
    worse = stressed(graph, edge_add=0.5, label_drop=0.4, label_noise=1.0)
    assert worse.edge_count == 30 + 15
    assert (worse.graph_of[worse.edges[0]] == worse.graph_of[worse.edges[1]]).all()
    assert worse.train.sum() == 3
    assert np.array_equal(worse.y[20:], graph.y[20:])
    full = stressed(graph, edge_add=5.0)
    assert full.edge_count == 10 * 6


def test_nothing_is_done_without_a_rate():
    graphs = [ring()] * 2
    assert all(a is b for a, b in zip(Stress().on(graphs, 0), graphs, strict=True))
    assert Stress().pooled(graphs[0], 0) is graphs[0]


def test_a_pooled_graph_has_its_share():
    assert Stress(edge_drop=0.5, clients=0.5).pooled(ring(), 0).edge_count == 30


def test_hidden_links_stay_and_are_not_added():
    graph = LinkPrediction(val=0.2, test=0.2).prepare(ring(), stream(0, "task"))
    worse = stressed(graph, edge_drop=0.5, edge_add=20.0)
    hidden = [p for probe in graph.probes[1:] for p in probe]
    for one, other in zip(graph.probes[1:], worse.probes[1:], strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    for part in hidden:
        assert not pairs(worse) & set(zip(*part.tolist(), strict=True))
    linked = worse.probes[0][0]
    assert linked.shape[1] == worse.edge_count, "links to train on are the edges that are left"
    assert set(zip(*linked.tolist(), strict=True)) <= pairs(worse)


@pytest.mark.parametrize(
    ("graph", "rates", "said"),
    [
        (
            LinkPrediction().prepare(ring(), stream(0, "task")),
            {"label_drop": 0.5},
            "stress.label_drop is for training labels",
        ),
        (replace(ring(), y=ring().y * 0, classes=1), {"label_noise": 0.5}, "has one only"),
        (
            ring(sparse.csr_array((NODES, 10_000_000), dtype=np.float32)),
            {"feature_noise": 0.1},
            "400,000,000 features of graph dense",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(graph, rates, said):
    with pytest.raises(AtollError, match=said):
        stressed(graph, **rates)


def test_some_client_may_have_no_edges_but_not_all():
    lonely = ring().subgraph(np.array([0, 5, 30]))
    one, other = Stress(edge_drop=0.5).on([lonely, ring()], 0)
    assert (one.edge_count, other.edge_count) == (0, 20)
    for refused in (lambda s: s.on([lonely, lonely], 0), lambda s: s.pooled(lonely, 0)):
        with pytest.raises(AtollError, match="and all others have none; leave it out"):
            refused(Stress(edge_drop=0.5))


@pytest.mark.parametrize(("option", "value", "text"), list(outside(Stress)))
def test_a_rate_out_of_bounds_is_refused(option, value, text):
    refused_in_one_sentence("stress", Stress, option, value, text)


def test_all_rates_have_bounds():
    assert numbers_without_bounds(Stress) == set()


def test_every_field_can_be_set_in_data():
    assert set(IN_DATA.values()) == set(Stress.__dataclass_fields__)


def test_a_dataset_can_not_take_the_same_name():
    @dataclass(frozen=True, kw_only=True)
    class Own(Dataset):
        edge_drop: float = 0.5

        def load(self) -> Graph:
            return ring()

    with pytest.raises(AtollError, match="'edge_drop', a name that stress has taken"):
        Own()
