"""FedIIH against its formulas in NumPy."""

import numpy as np
import pytest
import torch
from support import make, train

from atoll.cohort import Cohort
from atoll.methods.base import Info
from atoll.methods.fed_iih import elbo
from atoll.models.disen import Disen
from atoll.optimizers.sgd import SGD
from atoll.rng import CohortRng
from complex_step import assert_equal, client, cross_entropy, dense_x, gradient, softmax, unit
from small_federations import community_parties

FACTORS, D, LR, TAU = 2, 3, 0.2, 10.0
MODEL = Disen(factors=FACTORS, hidden=D, layers=1, routings=3, dropout=0.0)


def leaky(x):
    return np.where(x.real > 0, x, 0.01 * x)


def routed(x, graph):
    """Node by node and factor by factor."""
    a = graph.adjacency.toarray()
    x = unit(x.reshape(graph.nodes, FACTORS, D))
    u = x
    for _ in range(MODEL.routings):
        new = x.astype(complex)
        for i in range(graph.nodes):
            for j in np.flatnonzero(a[i]):
                p = softmax(np.array([x[j, k] @ u[i, k] for k in range(FACTORS)]))
                new[i] = new[i] + p[:, None] * x[j]
        u = unit(new)
    return leaky(u.reshape(graph.nodes, -1))


def hidden(p, graph):
    return routed(leaky(dense_x(graph) @ p["lin.weight"] + p["lin.bias"]), graph)


def loss(p, graph):
    return cross_entropy(hidden(p, graph) @ p["classifier.weight"] + p["classifier.bias"], graph)


def kl(mean, var, to_mean, to_var):
    return 0.5 * (np.log(to_var / var) + (var + (mean - to_mean) ** 2) / to_var - 1).sum()


def js(mu, nu, i, j, k):
    (m1, v1), (m2, v2) = ((mu[a, k], np.exp(nu[a, k])) for a in (i, j))
    middle = (m1 + m2) / 2, (v1 + v2) / 2
    return (kl(m1, v1, *middle) + kl(m2, v2, *middle)) / 2


def test_a_round_is_that_of_the_formulas():
    parties = community_parties((7, 5, 6), classes=2, features=4)
    method = make("fed-iih", model=MODEL, optimizer=SGD(lr=LR), encoder_layers=2)
    first = method.initial_model(Info(3, 4, 2, torch.float64), 0)
    sent, mu = [], []
    for graph in parties:
        w = {n: p.numpy() for n, p in first.items()}
        g = gradient(lambda p, graph=graph: loss(p, graph), w)
        w = {n: p - LR * g[n] for n, p in w.items()}
        latent = routed(routed(hidden(w, graph), graph), graph).real
        mu.append(latent.reshape(-1, FACTORS, D).mean(0))
        sent.append(w)
    # Without dropout the released encoder's log-variance is its mean.
    mu = nu = np.stack(mu)
    expected = [{n: np.zeros_like(p) for n, p in sent[0].items()} for _ in parties]
    for i in range(3):
        for k in range(FACTORS):
            part = slice(k * D, (k + 1) * D)
            alpha = softmax(
                np.array([TAU * (1 - js(mu, nu, i, j, k) / np.log(2)) for j in range(3)])
            )
            for j, w in enumerate(sent):
                expected[i]["lin.weight"][:, part] += alpha[j] * w["lin.weight"][:, part]
                expected[i]["lin.bias"][part] += alpha[j] * w["lin.bias"][part]
                expected[i]["classifier.weight"][part] += alpha[j] * w["classifier.weight"][part]
        expected[i]["classifier.bias"] = np.mean([w["classifier.bias"] for w in sent], axis=0)
    outcome = train(method, parties, rounds=1)
    for i in range(3):
        assert_equal(client(outcome.clients, "model", i), sent[i])
        assert_equal(client(outcome.server, "model", i), expected[i])


def test_the_bound_is_that_of_the_text(monkeypatch):
    """With the noise of the clients' own streams, and pairs in blocks of two rows."""
    monkeypatch.setattr(elbo, "_BLOCK", 2)
    parties = community_parties((5, 4), classes=2, features=4)
    cohort = Cohort(parties, dtype=torch.float64)
    draw = np.random.default_rng(1)
    mean, log_var = draw.normal(size=(2, 9, FACTORS, D))
    own, common = draw.normal(size=(2, 2, FACTORS, D))
    tensors = [torch.from_numpy(a) for a in (mean, log_var, own, common)]
    found = elbo.negative_elbo(*tensors, cohort, CohortRng(0, (0, 1), 1, "train"))
    for k, (graph, stream) in enumerate(
        zip(parties, CohortRng(0, (0, 1), 1, "train").streams, strict=True)
    ):
        rows = slice(5) if k == 0 else slice(5, 9)
        m, v = mean[rows], np.exp(log_var[rows])
        z = (m + stream.standard_normal(m.shape) * np.sqrt(v)).reshape(graph.nodes, -1)
        p = 1 / (1 + np.exp(-z @ z.T))
        a = graph.adjacency.toarray() > 0
        expected = -np.where(a, np.log(p), np.log(1 - p)).mean()
        for factor in range(FACTORS):
            to_own = [kl(m[i, factor], v[i, factor], own[k, factor], 0.25) for i in range(len(m))]
            expected += np.mean(to_own) / D
            expected += kl(own[k, factor], 0.25, common[k, factor], 0.25) / D
        assert float(found[k]) == pytest.approx(expected, abs=1e-10)


def test_with_the_bound_clients_learn_it_and_the_server_sends_the_common_mean():
    parties = community_parties((9, 8, 7))
    plain = train(make("fed-iih"), parties, rounds=2)
    bound = train(make("fed-iih", elbo=1.0), parties, rounds=2)
    assert not torch.equal(plain.clients["model/lin.weight"], bound.clients["model/lin.weight"])
    # Clients' own means are drawn towards their nodes', and never sent.
    assert bool((bound.clients["own_prior/mean"] != 0).any())
    assert bool((bound.server["prior/mean"] != 0).any())
    assert "prior/mean" not in plain.server
    assert not any("own_prior" in name for name in bound.replies.body)


def test_one_factor_and_no_similarity_is_fed_avg_of_equals():
    parties = community_parties((12, 12, 12))
    model = Disen(factors=1, hidden=8)
    iih = train(make("fed-iih", model=model, tau=0.0), parties, rounds=1)
    avg = train(make("fed-avg", model=model, weights="equal"), parties, rounds=1)
    for name in model.init(2, 2, np.random.default_rng(0)):
        for row in iih.server[f"model/{name}"]:
            torch.testing.assert_close(row, avg.server[f"model/{name}"])
