"""Descent in the span of few nodes is descent on the weights."""

import numpy as np
import pytest
import torch
from scipy import sparse

from atoll.cohort import Cohort
from atoll.federation.protocol import Call
from atoll.graph import Graph, make_graph
from atoll.methods.base import Info, methods
from atoll.methods.graphfl.meta import meta_gradient, on_queries
from atoll.models.gcn import GCN
from atoll.models.sgc import SGC
from atoll.ops.optimize import SGD, descend
from atoll.ops.span import Blocks, Rows, Span, Walk, descend_in_span, span_of
from atoll.ops.sparse import Sparse
from atoll.rng import CohortRng
from atoll.tree import flat, spread

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
    return spread(model.init(cohort.features, cohort.classes, np.random.default_rng(5)), cohort.k)


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, p in expected.items():
        assert torch.allclose(found[name], p, atol=1e-12, rtol=0), name


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("operator", [Blocks, Sparse])
def test_steps_with_decay_end_where_those_on_the_weights_do(model, operator, monkeypatch):
    monkeypatch.setattr("atoll.ops.span._SPARSE_IS_FASTER", 0 if operator is Sparse else 32)
    cohort, sgd = clients(), SGD(lr=0.5, weight_decay=0.1)
    span = span_of(model, cohort, "train")
    assert isinstance(span, Span)
    assert max(span.sizes) < min(cohort.sizes)
    expected, _, first = descend(start(model, cohort), lambda p: model.nll(p, cohort), sgd, {}, 4)
    walk, begun = descend_in_span(model, span, start(model, cohort), sgd, 4)
    assert_same(walk.arrive(), expected)
    assert torch.allclose(begun, first, atol=1e-12)
    assert isinstance(span.operator("gcn"), operator)


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("exact", [True, False])
def test_meta_gradients_are_those_of_the_weights(model, exact):
    cohort = clients()
    theta, span = start(model, cohort), span_of(model, cohort, "train", "val")
    assert span is not None

    def through(params, seen, **options):
        queries = on_queries(seen)
        return meta_gradient(
            params,
            lambda p: model.nll(p, seen),
            lambda p: model.nll(p, queries),
            0.7,
            2,
            exact=exact,
            weight_decay=0.1,
            **options,
        )

    expected = through(theta, cohort)
    found = span.leave(through(span.enter(theta), span, steps_of=span.steps))
    assert_same(found, expected)


def test_a_step_worked_out_by_hand():
    # One node with features (3, 4): X X^T = 25. Z = 1, G = 2, rate 0.1, decay 0.5.
    x = np.array([[3.0, 4.0]])
    node = make_graph(x, np.zeros((2, 0), dtype=np.int64), np.zeros(1, dtype=np.int64))
    seen = Cohort([node], dtype=torch.float64)
    layer = SGC().first_layer
    span = Span(seen, layer, [Rows(x, torch.float64)])
    weight = torch.tensor([[[-1.0], [1.0]]], dtype=torch.float64)
    walk = Walk(span, {"weight": weight}, SGD(lr=0.1, weight_decay=0.5))
    assert walk.params["weight"].tolist() == [[1.0]]
    walk.step({"weight": torch.tensor([[2.0]], dtype=torch.float64)})
    # 0.95 - 0.1 * 25 * 2, and 0.95 W - 0.1 * 2 * (3, 4).
    assert walk.params["weight"].item() == pytest.approx(-4.05)
    assert walk.arrive()["weight"].flatten().tolist() == pytest.approx([-1.55, 0.15])


def test_where_it_would_not_pay_or_not_be_the_same_there_is_none():
    cohort = clients()
    assert span_of(GCN(dropout=0.5), cohort, "train") is None
    assert span_of(MODELS[0], cohort, "test") is None  # nearly all nodes, and few features


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
