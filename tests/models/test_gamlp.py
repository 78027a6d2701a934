"""GAMLP against its equations, written out in numpy."""

import numpy as np
import torch

from atoll.cohort import Cohort
from atoll.graph import dense
from atoll.models.gamlp import GAMLP
from small_federations import community_parties


def scores(graph, p, hops):
    loops = graph.adjacency.toarray() + np.eye(graph.nodes)
    P = loops / np.sqrt(np.outer(loops.sum(1), loops.sum(1)))
    x = [dense(graph.x).astype(np.float64)]
    for _ in range(hops):
        x.append(P @ x[-1])
    reference = np.concatenate(x, axis=1)
    a_reference = np.concatenate(list(p["attention.reference"].T))
    e = [reference @ a_reference + (h @ p["attention.own"])[:, 0] + p["attention.bias"] for h in x]
    gate = np.exp(1 / (1 + np.exp(-np.stack(e, axis=1))))
    w = gate / gate.sum(1, keepdims=True)
    h = sum(w[:, k, None] * x[k] for k in range(hops + 1))
    for layer in ("lin1", "lin2"):
        h = h @ p[f"{layer}.weight"] + p[f"{layer}.bias"]
        h = np.where(h > 0, h, p["slope"] * h)
    return h @ p["lin3.weight"] + p["lin3.bias"]


def test_scores_are_those_of_the_equations():
    parties = community_parties((9, 12))
    model = GAMLP(hidden=5, hops=2)
    drawn = [model.init(24, 3, np.random.default_rng(k)) for k in range(2)]
    params_K = {name: torch.stack([p[name] for p in drawn]) for name in drawn[0]}
    found = model.apply(params_K, Cohort(parties, dtype=torch.float64))
    expected = [
        scores(graph, {name: value.numpy() for name, value in p.items()}, 2)
        for graph, p in zip(parties, drawn, strict=True)
    ]
    np.testing.assert_allclose(found, np.concatenate(expected), rtol=0, atol=1e-10)
