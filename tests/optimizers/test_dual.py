"""Descent in the dual of few nodes is descent on the weights."""

import numpy as np
import pytest
import torch
from scipy import sparse

from atoll.cohort import Cohort
from atoll.cohort.dual import Blocks, Dual, Rows
from atoll.federation.calls import Call
from atoll.graph import Graph, make_graph
from atoll.methods.base import Info, methods
from atoll.methods.graphfl.meta import meta_gradient, on_queries
from atoll.models.gcn import GCN
from atoll.models.sgc import SGC
from atoll.ops.sparse import Sparse
from atoll.optimizers.adam import Adam
from atoll.optimizers.descent import by_autograd, descend
from atoll.optimizers.dual import DualDescent
from atoll.optimizers.fit import begin, dual_cohort, fit
from atoll.optimizers.sgd import SGD
from atoll.rng import CohortRng
from atoll.tasks.links import LinkPrediction
from atoll.tasks.nodes import NodeClassification
from atoll.tree import flat, replicated

NODES, PLAIN = NodeClassification(), SGD()
MODELS = [GCN(hidden=3, dropout=0.0, head="graph"), GCN(hidden=3, dropout=0.0), SGC(hops=2)]


def few_labels(number: int, labels: int = 2, nodes: int = 150, features: int = 80) -> Graph:
    """A ring with chords, many words, and few nodes that train or validate."""
    rng = np.random.default_rng(number)
    around = np.arange(nodes)
    edges = np.stack([around, (around + 1) % nodes])
    chords = rng.integers(0, nodes, (2, 10))
    x = sparse.random_array((nodes, features), density=0.1, rng=rng, format="csr")
    graph = make_graph(x, np.concatenate([edges, chords], axis=1), rng.integers(0, 3, nodes))
    drawn = rng.permutation(nodes)
    train, val, test = (np.isin(around, part) for part in np.split(drawn, [labels, labels + 2]))
    return graph.relabelled(y=graph.y, train=train, val=val, test=test, name=f"ring {number}")


def clients(dtype=torch.float64) -> Cohort:
    """Three of different sizes."""
    return Cohort([few_labels(0), few_labels(1, labels=3), few_labels(2, nodes=120)], dtype=dtype)


def start(model, cohort):
    return replicated(
        model.init(cohort.features, cohort.classes, np.random.default_rng(5)), cohort.k
    )


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, p in expected.items():
        assert torch.allclose(found[name], p, atol=1e-12, rtol=0), name


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("operator", [Blocks, Sparse])
def test_steps_with_decay_end_where_those_on_the_weights_do(model, operator, monkeypatch):
    monkeypatch.setattr("atoll.cohort.dual._SPARSE_IS_FASTER", 0 if operator is Sparse else 32)
    cohort, sgd = clients(), SGD(lr=0.5, weight_decay=0.1)
    dual = dual_cohort(NODES, model, sgd, cohort, ("train",))
    assert isinstance(dual.inputs, Dual)
    assert max(dual.sizes) < min(cohort.sizes)
    expected, _, first = descend(
        start(model, cohort), by_autograd(lambda p: NODES.loss(model, p, cohort)), sgd, {}, 4
    )
    found = fit(NODES, model, sgd, start(model, cohort), cohort, epochs=4, rng=None)
    assert_same(found.params_K, expected)
    assert torch.allclose(found.loss_K, first, atol=1e-12)
    assert isinstance(dual.operator("gcn"), operator)


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("exact", [True, False])
def test_meta_gradients_are_those_of_the_weights(model, exact):
    cohort = clients()
    theta = start(model, cohort)
    descent = begin(NODES, model, PLAIN, theta, cohort, ("train", "val"))
    assert isinstance(descent, DualDescent)

    def through(params, seen, **options):
        queries = on_queries(seen)
        return meta_gradient(
            params,
            lambda p: NODES.loss(model, p, seen),
            lambda p: NODES.loss(model, p, queries),
            0.7,
            2,
            exact=exact,
            weight_decay=0.1,
            **options,
        )

    expected = through(theta, cohort)
    found = through(descent.params, descent.cohort, steps_of=descent.steps_of)
    found = descent.weight_gradient(found)
    assert_same(found, expected)


def test_a_step_worked_out_by_hand():
    # One node with features (3, 4): X X^T = 25. Z = 1, G = 2, rate 0.1, decay 0.5.
    x = np.array([[3.0, 4.0]])
    node = make_graph(x, np.zeros((2, 0), dtype=np.int64), np.zeros(1, dtype=np.int64))
    seen = Cohort([node], dtype=torch.float64)
    layer = SGC().first_layer
    dual = seen.with_inputs(Dual(seen.inputs, layer, [Rows(x, torch.float64)]))
    weight = torch.tensor([[[-1.0], [1.0]]], dtype=torch.float64)
    descent = DualDescent(dual, {"weight": weight}, SGD(lr=0.1, weight_decay=0.5))
    assert descent.params["weight"].tolist() == [[1.0]]
    descent.step({"weight": torch.tensor([[2.0]], dtype=torch.float64)})
    # 0.95 - 0.1 * 25 * 2, and 0.95 W - 0.1 * 2 * (3, 4).
    assert descent.params["weight"].item() == pytest.approx(-4.05)
    assert descent.weights()["weight"].flatten().tolist() == pytest.approx([-1.55, 0.15])


def test_where_it_would_not_pay_or_not_be_the_same_there_is_none():
    cohort = clients()

    def chosen(model=MODELS[0], optimizer=PLAIN, splits=("train",), task=NODES):
        return dual_cohort(task, model, optimizer, cohort, splits)

    assert chosen() is not None
    assert chosen(model=GCN(dropout=0.5)) is None
    assert chosen(splits=("test",)) is None  # nearly all nodes, and few features
    assert chosen(splits=()) is None
    assert chosen(optimizer=SGD(momentum=0.9)) is None
    assert chosen(optimizer=Adam()) is None
    assert chosen(task=LinkPrediction()) is None


@pytest.mark.parametrize("name", ["fed-avg", "graphfl", "graphfl-domain", "fed-avg-transfer"])
def test_methods_give_the_same_one_by_one(name):
    # Alone, a client is not filled up to the size of others.
    method = methods[name](model=MODELS[0], optimizer=SGD(lr=0.3), epochs=3)
    together = clients()
    step = "query_gradient" if name == "graphfl" else "train"
    for position in range(together.k):
        one = together.take([position])
        replies = []
        for cohort in (one, together):
            rng = CohortRng(0, cohort.clients, 1, step)
            state = method.first_state(cohort, CohortRng(0, cohort.clients, 0, "join"))
            call = Call(step, 1, 0, flat(method.start(_info(cohort), 0)))
            replies.append(method.perform(call, {}, cohort, state, rng)[1].body)
        for leaf, alone in replies[0].items():
            assert torch.allclose(alone[0], replies[1][leaf][position], atol=1e-12), leaf


def _info(cohort):
    return Info(cohort.k, cohort.features, cohort.classes, cohort.dtype)
