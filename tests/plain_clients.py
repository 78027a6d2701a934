"""Clients as plain PyTorch has them, one at a time and dense: what methods are held against."""

import torch
from support import make, train
from torch.nn.functional import cross_entropy

from atoll.graph import dense
from atoll.methods.base import initial_model
from atoll.models.gcn import GCN
from atoll.optimizers.adam import Adam
from atoll.optimizers.sgd import SGD
from small_federations import community_parties

PARTIES = community_parties((9, 14, 11, 8), features=10)
# No dropout: an independent loop would draw other masks.
MODEL = GCN(hidden=4, dropout=0.0)
LR = {"sgd": 0.5, "adam": 0.02}
OPTIMIZERS = {"sgd": SGD(lr=LR["sgd"]), "adam": Adam(lr=LR["adam"])}


class PlainClient:
    """One party: its loss, gradients and representations, as written in the model's docstring."""

    def __init__(self, graph):
        a = torch.eye(graph.nodes, dtype=torch.float64)
        for u, v in graph.edges.T:
            a[v, u] = 1.0
        scale = a.sum(1) ** -0.5
        self.P = scale[:, None] * a * scale
        self.x = torch.from_numpy(dense(graph.x)).double()
        self.y, self.train = torch.from_numpy(graph.y), torch.from_numpy(graph.train)
        self.n = float(self.train.sum())

    def z(self, w):
        h = (self.P @ (self.x @ w["conv1.weight"]) + w["conv1.bias"]).relu()
        return self.P @ (h @ w["conv2.weight"]) + w["conv2.bias"]

    def loss(self, w):
        scores = self.z(w).relu() @ w["classifier.weight"] + w["classifier.bias"]
        return cross_entropy(scores[self.train], self.y[self.train])

    def gradient(self, w, objective=None):
        w = {n: p.clone().requires_grad_() for n, p in w.items()}
        found = torch.autograd.grad((objective or self.loss)(w), list(w.values()))
        return dict(zip(w, found, strict=True))


class PlainOptimizer:
    """One client's, step by step."""

    def __init__(self, name, fresh=False):
        self.name, self.lr, self.fresh = name, LR[name], fresh
        self.begin_anew()

    def begin_anew(self):
        self.m, self.v, self.t = {}, {}, 0

    def begin_round(self):
        if self.fresh:
            self.begin_anew()

    def step(self, w, g):
        if self.name == "sgd":
            return {n: p - self.lr * g[n] for n, p in w.items()}
        self.t += 1
        after = {}
        for n, p in w.items():
            self.m[n] = 0.9 * self.m.get(n, 0.0) + 0.1 * g[n]
            self.v[n] = 0.999 * self.v.get(n, 0.0) + 0.001 * g[n] ** 2
            m, v = self.m[n] / (1 - 0.9**self.t), self.v[n] / (1 - 0.999**self.t)
            after[n] = p - self.lr * m / (v.sqrt() + 1e-8)
        return after


def clients():
    return [PlainClient(graph) for graph in PARTIES]


def add(a, b, times=1.0):
    return {n: p + times * b[n] for n, p in a.items()}


def zero(a):
    return {n: torch.zeros_like(p) for n, p in a.items()}


def mean(trees, shares):
    return {n: sum(s * t[n] for s, t in zip(shares, trees, strict=True)) for n in trees[0]}


def descend(client, optimizer, w, steps, correct=lambda w, g: g, objective=None):
    """Some steps on corrected gradients: where they end, and the mean of those met on the way."""
    met = zero(w)
    for _ in range(steps):
        g = client.gradient(w, objective)
        met = add(met, g, 1 / steps)
        w = optimizer.step(w, correct(w, g))
    return w, met


def federation(name, rounds=3, optimizer="sgd", **options):
    """A method's outcome, the first model, and who took part in which round."""
    usual = {"model": MODEL, "optimizer": OPTIMIZERS[optimizer], "epochs": 2}
    method = make(name, **(usual | options))
    outcome = train(method, PARTIES, rounds=rounds)
    table = outcome.fed.ledger.table().filter(step="train", direction="up")
    who = [sorted(set(table.filter(round=r)["client"])) for r in range(1, rounds + 1)]
    first = PARTIES[0]
    start = initial_model(MODEL, first.features, first.classes, torch.float64, 0)
    return outcome, start, who


def same(found, expected, tolerance=1e-10):
    """A flat tree's leaves of some kind, and what they should be."""
    assert set(found) == set(expected)
    for n, p in expected.items():
        torch.testing.assert_close(found[n], p, rtol=0, atol=tolerance, msg=n)
