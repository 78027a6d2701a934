"""FedAux against its formulas in NumPy."""

import numpy as np
import pytest
import torch
from support import assert_same_model, make, train

from atoll.methods.base import Info
from atoll.models.aux_gcn import AuxGCN
from atoll.optimizers.sgd import SGD
from atoll.tree import under
from complex_step import assert_equal, client, cross_entropy, dense_x, gcn, gradient, relu, softmax
from small_federations import community_parties

MODEL = AuxGCN(hidden=3, dropout=0.0, sigma=0.7)
LR = 0.3


def loss(p, graph):
    """The kernel as it stands in the paper, ``[n, n]``."""
    P, x = gcn(graph), dense_x(graph)
    h = relu(P @ x @ p["conv1.weight"] + p["conv1.bias"])
    h = relu(P @ h @ p["conv2.weight"] + p["conv2.bias"])
    length = np.sqrt((h * h).sum(1)) * np.sqrt((p["aux"] ** 2).sum())
    s = h @ p["aux"] / np.where(length.real > 0, length, 1)
    kappa = np.exp(-((s[:, None] - s) ** 2) / MODEL.sigma**2)
    z = kappa @ h / kappa.sum(1, keepdims=True)
    return cross_entropy(np.hstack([h, z]) @ p["classifier.weight"] + p["classifier.bias"], graph)


def mixture(sent, tau):
    a = np.stack([w["aux"] for w in sent])
    a = a / np.linalg.norm(a, axis=1, keepdims=True)
    alpha = softmax(tau * a @ a.T)
    return [
        {n: sum(alpha[i, j] * w[n] for j, w in enumerate(sent)) for n in sent[0]}
        for i in range(len(sent))
    ]


@pytest.mark.parametrize("sigma", [0.7, 2.0])
def test_two_rounds_are_those_of_the_formulas(sigma, monkeypatch):
    """The second round begins from a mixture and from masks that have moved."""
    monkeypatch.setitem(globals(), "MODEL", AuxGCN(hidden=3, dropout=0.0, sigma=sigma))
    parties = community_parties((7, 5, 6), classes=2, features=4)
    method = make("fed-aux", model=MODEL, optimizer=SGD(lr=LR), tau=200.0)
    first = method.initial_model(Info(3, 4, 2, torch.float64), 0)
    given = [{n: p.numpy() for n, p in first.items()} for _ in parties]
    masks = [{n: np.ones_like(p) for n, p in w.items() if p.ndim == 2} for w in given]
    for _ in range(2):
        sent = []
        for k, graph in enumerate(parties):
            w, mu = given[k], masks[k]
            theta = {n: p * mu.get(n, 1.0) for n, p in w.items()}
            g = gradient(lambda p, graph=graph: loss(p, graph), theta)
            sent.append({n: p - LR * g[n] * mu.get(n, 1.0) for n, p in w.items()})
            masks[k] = {n: m - LR * g[n] * w[n] for n, m in mu.items()}
        given = mixture(sent, 200.0)
    outcome = train(method, parties, rounds=2)
    for k in range(3):
        assert_equal(client(outcome.server, "model", k), given[k])
        assert_equal(client(outcome.clients, "mask", k), masks[k])
        used = {n: p * masks[k].get(n, 1.0) for n, p in sent[k].items()}
        assert_equal(client(outcome.clients, "model", k), used)


def test_uniform_without_masks_it_is_fed_avg():
    parties = community_parties((24, 24, 24, 24))
    model = AuxGCN(hidden=8)
    aux = train(make("fed-aux", mix="uniform", masks=False, epochs=2), parties)
    avg = train(make("fed-avg", model=model, weights="equal", epochs=2), parties)
    assert_same_model(aux.clients, avg.clients)


def test_masks_below_the_threshold_are_zero_in_use_and_kept():
    parties = community_parties((9, 8))
    outcome = train(make("fed-aux", threshold=0.995), parties)
    mask, used = under(outcome.clients, "mask"), under(outcome.clients, "model")
    below = mask["conv2.weight"].abs() < 0.995
    assert 0 < int(below.sum()) < below.numel()
    assert bool((used["conv2.weight"][below] == 0).all())
    assert bool((mask["conv2.weight"][below] != 0).any())
