"""What a cohort leaves out or keeps once changes no number."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse

from atoll.cohort import Cohort
from atoll.cohort.k_hop import KHop
from atoll.cohort.whole import Whole
from atoll.graph import Graph, dense, make_graph, node_mask
from atoll.leaves import Ragged
from atoll.models.gcn import GCN
from atoll.models.sgc import SGC
from atoll.tasks.nodes import NodeClassification
from atoll.tree import replicated
from small_federations import community_parties, path_graph

NODES = NodeClassification()
MODELS = [GCN(hidden=4, dropout=0.0), GCN(hidden=4, dropout=0.0, head="graph"), SGC(), SGC(hops=1)]


def ring(nodes: int, train: tuple[int, ...], seed: int = 0) -> Graph:
    """Nodes in a circle, two classes, few of them to train on."""
    x = np.random.default_rng(seed).normal(size=(nodes, 5)).astype(np.float32)
    around = np.arange(nodes)
    graph = make_graph(x, np.array([around, (around + 1) % nodes]), around % 2)
    return replace(
        graph,
        train=node_mask(np.array(train, dtype=int), nodes),
        val=node_mask(np.array([8]), nodes),
        test=node_mask(np.array([1, 11]), nodes),
    )


def params(model, cohort):
    one = model.init(cohort.features, cohort.classes, np.random.default_rng(0))
    own = {n: p + 0.1 * torch.arange(cohort.k).view(-1, *[1] * p.dim()) for n, p in one.items()}
    return {n: p.requires_grad_() for n, p in own.items()}


def test_a_k_hop_neighbourhood():
    cohort = Cohort([ring(40, (3,)), ring(40, (20, 21))])
    assert [g.ids.tolist() for g in cohort.k_hop(0, "train").graphs] == [[3], [20, 21]]
    assert [g.ids.tolist() for g in cohort.k_hop(1, "train").graphs] == [
        [2, 3, 4],
        [19, 20, 21, 22],
    ]
    both = cohort.k_hop(0, "train", "test").graphs[0]
    assert both.ids.tolist() == [1, 3, 11]
    assert both.test.tolist() == [True, False, True]


def test_a_neighbourhood_is_everything_where_much_is_needed_or_the_reach_unknown():
    few, many = ring(40, (3,)), ring(12, (1, 5, 8, 10))
    cohort = Cohort([many, many])
    assert cohort.k_hop(1, "train") is cohort
    assert Cohort([few]).k_hop(None, "train").sizes == (40,)
    assert Cohort([few, many]).k_hop(1, "train").sizes == (3, 12)


def test_a_neighbourhood_may_be_a_larger_share_where_features_are_dense():
    half = ring(12, (1, 5))
    words = replace(half, x=sparse.csr_array(np.eye(12, dtype=np.float32)))
    assert Cohort([half]).k_hop(1, "train").sizes == (6,)
    assert Cohort([words]).k_hop(1, "train").sizes == (12,)
    packed = replace(half, x=sparse.csr_array(half.x))
    assert Cohort([packed]).k_hop(1, "train").sizes == (6,)


def test_a_neighbourhood_of_no_nodes_keeps_one():
    assert Cohort([ring(40, ())]).k_hop(1, "train").sizes == (3,)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_loss_on_the_neighbourhood_is_the_loss_on_the_whole_graph(model):
    """Value and gradient, although only 4 of 40 nodes are computed."""
    cohort = Cohort([ring(40, (3,)), ring(40, (20, 21), seed=1)], dtype=torch.float64)
    assert isinstance(cohort.k_hop(model.reach, "train").inputs, KHop)
    p = params(model, cohort)
    rows = cohort.rows("train")
    everywhere = model.apply(p, cohort)[rows]
    losses = torch.nn.functional.cross_entropy(everywhere, cohort.y[rows], reduction="none")
    whole = torch.stack([losses[0], losses[1:].mean()])
    near = NODES.loss(model, p, cohort)
    torch.testing.assert_close(near, whole)
    for a, b in zip(
        torch.autograd.grad(near.sum(), list(p.values())),
        torch.autograd.grad(whole.sum(), list(p.values())),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def crowd():
    """Everybody knows everybody and has 20 words of their own, so P X is full."""
    words = sparse.csr_array(np.repeat(np.eye(30, dtype=np.float32), 20, axis=1))
    everybody = np.array(np.nonzero(1 - np.eye(30)))
    return make_graph(words, everybody, np.arange(30) % 2)


def two_products(graph):
    return Whole([graph], torch.float64).work_of_two_products("gcn", 1)


def test_propagated_features_are_not_made_where_they_have_many_times_the_entries():
    cohort = Cohort([crowd()], dtype=torch.float64)
    assert two_products(crowd()) == 30 * 20 + 30 * 30
    one_word = sparse.csr_array(np.eye(30, dtype=np.float32))
    assert two_products(replace(ring(30, (3,)), x=one_word)) == np.inf
    assert two_products(replace(crowd(), x=dense(crowd().x))) == np.inf
    weight_K = torch.linspace(-1, 1, 2400, dtype=torch.float64).view(1, 600, 4).requires_grad_()
    found = cohort.linear(weight_K, propagated="gcn")
    px = torch.full((30, 30), 1 / 30, dtype=torch.float64).repeat_interleave(20, dim=1)
    torch.testing.assert_close(found, px @ weight_K[0])
    gradient = torch.autograd.grad(found.square().sum(), weight_K)[0]
    torch.testing.assert_close(gradient[0], 2 * px.T @ (px @ weight_K[0]).detach())


@pytest.mark.parametrize("clients", [1, 3])
def test_neighbourhoods_and_clients_of_one_graph_propagate_last_too(clients):
    graph = crowd()
    shared = Whole([graph] * clients, torch.float64)
    part = [np.arange(k, 20 + 2 * k) for k in range(clients)]
    near = KHop([graph] * clients, part, torch.float64)
    assert shared.work_of_two_products("gcn", 1) < np.inf
    assert near.work_of_two_products("gcn", 1) < np.inf
    size = clients * 2400
    weight_K = torch.linspace(-1, 1, size, dtype=torch.float64).view(clients, 600, 4)
    weight_K.requires_grad_()
    px = torch.full((30, 30), 1 / 30, dtype=torch.float64).repeat_interleave(20, dim=1)
    for inputs in (shared, near):
        found = torch.split(inputs.linear(weight_K, propagated="gcn"), list(inputs.sizes))
        assert not inputs.has_cached("gcn^1@x")
        expected = [px[:n] @ w for n, w in zip(inputs.sizes, weight_K, strict=True)]
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b)
        gradients = [
            torch.autograd.grad(sum(h.square().sum() for h in of), weight_K)[0]
            for of in (found, expected)
        ]
        torch.testing.assert_close(*gradients)


def test_one_client_s_neighbourhood_is_evaluated_with_the_whole_graph_s_operator():
    """Its border nodes' neighbours are not in it."""
    cohort = Cohort([ring(40, (3,))], dtype=torch.float64)
    near = cohort.k_hop(1, "train")
    weight_K = torch.linspace(-1, 1, 4 * cohort.features, dtype=torch.float64).view(1, -1, 4)
    with torch.no_grad():
        found = near.linear(weight_K, propagated="gcn")
        torch.testing.assert_close(found, cohort.linear(weight_K, propagated="gcn")[2:5])


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_clients_of_one_graph_keep_its_features_once(model, dense):
    (graph,) = community_parties((20,), dense=dense)
    parties = [
        graph.relabelled(y=graph.y, train=graph.train, val=graph.val, name=str(k)) for k in range(3)
    ]
    shared = Cohort(parties, dtype=torch.float64)
    apart = Cohort([replace(g) for g in community_parties((20,), dense=dense) * 3])
    apart = Cohort([replace(g, x=g.x.copy()) for g in apart.graphs], dtype=torch.float64)
    assert shared.one_graph
    assert not apart.one_graph
    p = params(model, shared)
    torch.testing.assert_close(model.apply(p, shared), model.apply(p, apart))
    ours, theirs = (
        torch.autograd.grad(NODES.loss(model, p, c).square().sum(), list(p.values()))
        for c in (shared, apart)
    )
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


def test_clients_of_one_graph_may_have_the_same_few_nodes_to_train_on():
    graph, model = ring(40, (3,)), MODELS[0]
    parties = [
        graph.relabelled(y=graph.y, train=graph.train, val=graph.val, name=str(k)) for k in range(3)
    ]
    shared = Cohort(parties, dtype=torch.float64)
    assert shared.k_hop(1, "train").one_graph
    p = params(model, shared)
    alone = [
        NODES.loss(model, {n: leaf[k : k + 1] for n, leaf in p.items()}, shared.take([k]))
        for k in range(3)
    ]
    torch.testing.assert_close(NODES.loss(model, p, shared), torch.cat(alone))


def test_one_model_on_one_graph_is_one_pass():
    (graph,) = community_parties((20,))
    parties = [
        graph.relabelled(y=graph.y, train=graph.train, val=graph.val, name=str(k)) for k in range(3)
    ]
    shared, model = Cohort(parties, dtype=torch.float64), GCN(hidden=4)
    one = model.init(shared.features, shared.classes, np.random.default_rng(0))
    rows = shared.rows("test")
    expected = model.apply(replicated(one, 3), shared)[rows]
    torch.testing.assert_close(model.predict(replicated(one, 1), shared, rows), expected)
    torch.testing.assert_close(model.predict(replicated(one, 3), shared, rows), expected)


def test_relabelled_cohorts_share_their_inputs_and_not_their_splits():
    parties = community_parties((20, 25))
    cohort = Cohort(parties)
    operator = cohort.operator("gcn")
    swapped = [g.relabelled(y=g.y, train=g.val, val=g.train, name=g.name) for g in parties]
    rows = cohort.rows("train").tolist()
    other = cohort.relabelled(swapped)
    assert other.operator("gcn") is operator
    assert other.rows("val").tolist() == rows
    assert other.rows("train").tolist() == cohort.rows("val").tolist() != rows


def test_the_latest_is_kept_while_its_leaves_are_equal():
    thing = Cohort([path_graph([[1.0]], [0])])
    values = torch.tensor([1.0, 2.0, 3.0])

    def latest(leaf):
        return thing.latest("made", (leaf,), lambda: [leaf])

    first = latest(Ragged(values, (1, 2)))
    assert latest(Ragged(values.clone(), (1, 2))) is first
    assert latest(Ragged(values, (2, 1))) is not first
    assert latest(Ragged(values, (1, 2))) is not first
    assert latest(values) is not latest(values + 1)
    assert latest(values + 1) is latest(values + 1)
