"""Gradients through gradient steps, against finite differences and a Hessian written out."""

import numpy as np
import pytest
import torch

from atoll.cohort import Cohort
from atoll.graph import dense
from atoll.methods.graphfl.meta import has_nodes, meta_gradient, on_queries
from atoll.models.gcn import GCN
from atoll.models.sgc import SGC
from atoll.optimizers.steps import adapted, gradient
from atoll.tasks.nodes import NodeClassification
from atoll.tree import replicated
from small_federations import community_parties

RATE = 0.3
NODES = NodeClassification()


def bowl(curvature, centre):
    """``sum_j curvature_j (theta_j - centre_j)^2 / 2`` a client: its Hessian is diagonal."""

    def loss(p):
        return (torch.tensor(curvature) * (p["w"] - torch.tensor(centre)) ** 2).sum(1) / 2

    return loss


def test_one_step_on_bowls_by_hand():
    """grad L_S = 2 (1 - 0) = 2, theta_hat = 1 - 0.3 * 2 = 0.4, grad L_Q = 0.4 - 3 = -2.6."""
    support, query = bowl([[2.0]], [[0.0]]), bowl([[1.0]], [[3.0]])
    theta = {"w": torch.tensor([[1.0]], requires_grad=True)}
    assert gradient(theta, support)["w"].item() == 2.0
    assert adapted(theta, support, RATE, 1)["w"].item() == pytest.approx(0.4)
    exact = meta_gradient(theta, support, query, RATE)["w"].item()
    assert exact == pytest.approx((1 - RATE * 2) * -2.6)
    assert meta_gradient(theta, support, query, RATE, exact=False)["w"].item() == pytest.approx(
        -2.6
    )


def test_several_steps_multiply_their_factors():
    """Each step on a bowl of curvature c contributes a factor 1 - rate c, to each entry its own."""
    support, query = bowl([[2.0, 1.0]], [[0.0, 0.0]]), bowl([[1.0, 1.0]], [[3.0, 3.0]])
    theta = {"w": torch.tensor([[1.0, 1.0]])}
    found = meta_gradient(theta, support, query, RATE, steps=3)["w"][0]
    for entry, factor in zip(found.tolist(), (0.4, 0.7), strict=True):
        assert entry == pytest.approx(factor**3 * (factor**3 - 3))


def test_weight_decay_bends_every_step():
    """With decay d the support's slope is c + d: for c = 2, d = 0.5 the factor is 0.25."""
    support, query = bowl([[2.0]], [[0.0]]), bowl([[1.0]], [[3.0]])
    theta = {"w": torch.tensor([[1.0]])}
    found = meta_gradient(theta, support, query, RATE, weight_decay=0.5)["w"].item()
    assert found == pytest.approx(0.25 * (0.25 - 3))


def test_clients_do_not_mix():
    support = bowl([[2.0], [1.0]], [[0.0], [0.0]])
    query = bowl([[1.0], [1.0]], [[3.0], [5.0]])
    both = meta_gradient({"w": torch.tensor([[1.0], [1.0]])}, support, query, RATE)["w"].flatten()
    assert both.tolist() == pytest.approx([0.4 * (0.4 - 3), 0.7 * (0.7 - 5)])


def cohorts():
    support = Cohort(community_parties((12, 15)), dtype=torch.float64)
    return support, on_queries(support)


def start(model, cohort):
    params = model.init(cohort.features, cohort.classes, np.random.default_rng(0))
    return replicated(params, cohort.k)


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("model", [GCN(hidden=3), GCN(hidden=3, head="graph"), SGC()], ids=str)
def test_the_exact_gradient_agrees_with_finite_differences(model, steps):
    support, query = cohorts()
    theta = start(model, support)

    def objective(p):
        near = adapted(p, lambda q: NODES.loss(model, q, support), RATE, steps)
        return NODES.loss(model, near, query)

    found = meta_gradient(
        theta,
        lambda p: NODES.loss(model, p, support),
        lambda p: NODES.loss(model, p, query),
        RATE,
        steps,
    )
    rng, step = np.random.default_rng(1), 1e-6
    for name, value in theta.items():
        for _ in range(4):
            entry = tuple(int(rng.integers(size)) for size in value.shape)
            there, back = ({n: p.clone() for n, p in theta.items()} for _ in range(2))
            there[name][entry] += step
            back[name][entry] -= step
            slope = (objective(there) - objective(back))[entry[0]] / (2 * step)
            assert found[name][entry].item() == pytest.approx(slope.item(), rel=1e-4, abs=1e-8)


def softmax_regression(graph, train):
    """``P^2 X`` and one-hot labels of some nodes, dense."""
    a = np.eye(graph.nodes)
    a[graph.edges[1], graph.edges[0]] = 1.0
    scale = a.sum(1) ** -0.5
    p = scale[:, None] * a * scale
    x = np.hstack([p @ p @ dense(graph.x), np.ones((graph.nodes, 1))])
    return x[train], np.eye(graph.classes)[graph.y[train]]


def test_the_exact_gradient_agrees_with_a_hessian_written_out():
    """An SGC is softmax regression: ``H = mean_v (diag(q_v) - q_v q_v^T) kron x_v x_v^T``."""
    (graph,) = community_parties((15,))
    support = Cohort([graph], dtype=torch.float64)
    model = SGC()
    theta = start(model, support)
    w = torch.cat([theta["weight"][0], theta["bias"]]).numpy()

    def softmax(z):
        e = np.exp(z - z.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    def slope(w, x, y):
        return x.T @ (softmax(x @ w) - y) / len(x)

    xs, ys = softmax_regression(graph, graph.train)
    xq, yq = softmax_regression(graph, graph.val)
    hessian = np.zeros((w.size, w.size))
    for x, q in zip(xs, softmax(xs @ w), strict=True):
        hessian += np.kron(np.outer(x, x), np.diag(q) - np.outer(q, q)) / len(xs)
    hat = w - RATE * slope(w, xs, ys)
    expected = (np.eye(w.size) - RATE * hessian) @ slope(hat, xq, yq).ravel()

    query = on_queries(support)
    found = meta_gradient(
        theta, lambda p: NODES.loss(model, p, support), lambda p: NODES.loss(model, p, query), RATE
    )
    flat = torch.cat([found["weight"][0], found["bias"]]).numpy().ravel()
    np.testing.assert_allclose(flat, expected, atol=1e-12)
    first = meta_gradient(
        theta,
        lambda p: NODES.loss(model, p, support),
        lambda p: NODES.loss(model, p, query),
        RATE,
        exact=False,
    )
    flat = torch.cat([first["weight"][0], first["bias"]]).numpy().ravel()
    np.testing.assert_allclose(flat, slope(hat, xq, yq).ravel(), atol=1e-12)


def test_queries_are_the_validation_nodes():
    support, query = cohorts()
    assert query.rows("train").tolist() == support.rows("val").tolist()
    assert query.rows("test").tolist() == support.rows("test").tolist()
    assert has_nodes(query).tolist() == [1.0, 1.0]
