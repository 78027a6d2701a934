"""Many clients joined: the numbers of a look at each client by itself, to the last bit."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse

from atoll.cohort import Cohort
from atoll.cohort.joined import JoinedKHop, JoinedWhole, inputs_of
from atoll.cohort.k_hop import KHop
from atoll.cohort.union import Union, stacked_features
from atoll.cohort.whole import Whole
from atoll.graph import Graph, make_graph

K, F = 70, 12
KINDS = ["dense", "sparse", "weighted", "directed"]


def clients(kind: str) -> list[Graph]:
    rng = np.random.default_rng(3)
    return [one_client(kind, int(n), rng) for n in rng.integers(1, 30, K)]


def one_client(kind: str, n: int, rng: np.random.Generator) -> Graph:
    x = rng.random((n, F)).astype(np.float32)
    x[rng.random((n, F)) < 0.9] = 0
    edges = rng.integers(n, size=(2, n // 2))
    graph = make_graph(sparse.csr_array(x) if kind == "sparse" else x, edges, np.arange(n) % 2)
    train = rng.random(n) < 0.2
    facts = vars(graph) | {"train": train, "test": ~train}
    if kind == "weighted":
        facts["weights"] = rng.random(graph.edges.shape[1])
    if kind == "directed":
        facts["edges"] = graph.edges[:, graph.edges[0] < graph.edges[1]]
    facts.pop("_derived", None)
    return Graph(**facts)


def product(inputs, *how):
    torch.manual_seed(0)
    weight_K = torch.randn(K, F, 3, requires_grad=True)
    out = inputs.linear(weight_K, *how)
    return out.detach(), torch.autograd.grad(out.square().sum(), weight_K)[0]


def check_same(joined, alone):
    assert joined.sizes == alone.sizes
    for name in ("gcn", "mean", "sum"):
        one, other = joined.operator(name), alone.operator(name)
        assert one.symmetric == other.symmetric
        assert torch.equal(one.csr.to_dense(), other.csr.to_dense())
    for how in (("",), ("gcn", 1), ("gcn", 2), ("mean", 1)):
        for one, other in zip(product(joined, *how), product(alone, *how), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_whole_graphs(kind):
    graphs = clients(kind)
    joined = inputs_of(graphs, torch.float32)
    assert isinstance(joined, JoinedWhole)
    check_same(joined, Whole(graphs, torch.float32))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reach", [0, 1, 2])
def test_neighbourhoods(kind, reach):
    graphs = clients(kind)
    inside_K = [g.train for g in graphs]
    near = inputs_of(graphs, torch.float32).k_hop(reach, inside_K)
    expected = Whole(graphs, torch.float32).k_hop(reach, inside_K)
    assert near is not None
    assert expected is not None
    for rows, other in zip(near.rows_K, expected.rows_K, strict=True):
        assert rows.tolist() == other.tolist()
    assert isinstance(near.inputs, JoinedKHop)
    check_same(near.inputs, expected.inputs)
    some = list(range(1, 67))
    check_taken(near.inputs.take(some), expected.inputs.take(some))
    few = near.inputs.take([3, 1])
    assert type(few) is KHop
    assert [g.ids.tolist() for g in few.graphs] == [
        g.ids.tolist() for g in expected.inputs.take([3, 1]).graphs
    ]


def check_taken(joined, alone):
    assert joined.sizes == alone.sizes
    a, b = joined.operator("gcn"), alone.operator("gcn")
    assert torch.equal(a.csr.to_dense(), b.csr.to_dense())


def test_features_propagated_once_are_the_same_to_the_last_bit():
    graphs = clients("dense")
    one, other = (
        i._packed_features("gcn", 1)
        for i in (inputs_of(graphs, torch.float32), Whole(graphs, torch.float32))
    )
    assert torch.equal(one, other)


def test_cohorts_of_many_clients_know_labels_without_a_graph_per_client():
    cohort = Cohort(clients("dense"))
    near = cohort.k_hop(1, "train")
    assert near.labelled.tolist() == cohort.labelled.tolist()
    assert near.y[near.rows("train")].tolist() == cohort.y[cohort.rows("train")].tolist()
    assert not near.graphs._made or len(near.graphs._made) == 1
    for k, graph in enumerate(near.graphs):
        assert graph.y.tolist() == torch.split(near.y, list(near.sizes))[k].tolist()
        assert graph.train.sum() == cohort.graphs[k].train.sum()


def test_rows_that_lie_in_one_array_are_not_copied():
    x = np.arange(40.0, dtype=np.float32).reshape(10, 4)
    parts = [x[2:5], x[5:6], x[6:9]]
    assert np.shares_memory(stacked_features(parts), x)
    assert stacked_features(parts).tolist() == x[2:9].tolist()
    assert not np.shares_memory(stacked_features([x[2:5], x[6:9]]), x)


def test_long_unions_are_propagated_a_few_clients_at_a_time(monkeypatch):
    graphs = clients("dense")
    everything = np.arange(sum(g.nodes for g in graphs))
    at_once = Union(graphs).propagated("gcn", 2, everything, np.dtype(np.float64))
    monkeypatch.setattr("atoll.cohort.union._ROWS_AT_ONCE", 40)
    union = Union(graphs)
    assert len(list(union._groups())) > 10
    assert np.array_equal(union.propagated("gcn", 2, everything, np.dtype(np.float64)), at_once)
    some = everything[::3]
    assert np.array_equal(union.propagated("gcn", 2, some, np.dtype(np.float64)), at_once[some])


def test_many_clients_train_their_own_rows_at_few_nodes():
    """Rows of words that a client has, at the neighbourhood of its few training nodes."""
    n, features, k = 40, 200, 70
    ring = np.arange(n)
    edges = np.stack([np.r_[ring, (ring + 1) % n], np.r_[(ring + 1) % n, ring]])
    graphs = []
    for client in range(k):
        rng = np.random.default_rng(client)
        words = rng.choice(features, size=30, replace=False)
        x = np.zeros((n, features))
        x[ring, rng.choice(words, size=n)] = 1.0
        made = make_graph(sparse.csr_array(x), edges, ring % 3, classes=3)
        graphs.append(replace(made, train=ring == 5))
    cohort = Cohort(graphs, dtype=torch.float64)
    part, places = cohort.k_hop(1, "train"), cohort.inputs.places
    assert part is not cohort
    assert places is not None
    common = torch.randn(features, 20, dtype=torch.float64)
    whole = part.linear(common.expand(k, -1, -1).contiguous(), propagated="gcn")
    torch.testing.assert_close(part.linear(common[places.rows], propagated="gcn"), whole)
