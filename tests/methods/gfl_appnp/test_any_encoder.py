"""Encoders beyond the two-layer MLP, against the one whose Jacobians are written out."""

import numpy as np
import pytest
import torch
from scipy import sparse

from atoll.cohort import Cohort
from atoll.federation.host import Host
from atoll.federation.inprocess import InProcess
from atoll.methods.base import Info
from atoll.methods.gfl_appnp import GFLAPPNP, any_encoder
from atoll.models.gcn import GCN
from atoll.models.mlp import MLP
from atoll.optimizers.sgd import SGD
from small_federations import community_parties

BARE = MLP(hidden=5, dropout=0.0, bias=False)


def ring(k):
    links = np.roll(np.eye(k), 1, axis=0)
    return sparse.csr_array(np.minimum(links + links.T, 1))


def trained(method, parties, rounds=2, chunk=0):
    """Federation and server after some rounds, in float64."""
    host = Host(method, Cohort(parties, dtype=torch.float64), seed=0, chunk=chunk)
    k = len(parties)
    info = Info(k, parties[0].features, parties[0].classes, torch.float64, network=ring(k))
    fed, state = InProcess(host), method.start(info, 0)
    for r in range(1, rounds + 1):
        fed.begin(r)
        state = method.round(fed, state, r)
    return fed, state


def gfl(**options):
    return GFLAPPNP(**({"model": BARE, "optimizer": SGD(lr=0.5), "epochs": 3} | options))


@pytest.mark.parametrize("compensation", ["exact", "none"])
@pytest.mark.parametrize("batch", [0, 2])
def test_whole_jacobians_give_what_structured_ones_give(monkeypatch, compensation, batch):
    parties = community_parties((6, 9, 5, 7), features=10)
    method = gfl(compensation=compensation, batch=batch)
    fed, structured = trained(method, parties)
    scored = method.measure(fed, structured).body["metric/loss"]
    monkeypatch.setattr(any_encoder, "is_bare", lambda model: False)
    fed, whole = trained(method, parties)
    for name, value in structured["model"].items():
        torch.testing.assert_close(whole["model"][name], value, rtol=0, atol=1e-10)
    again = method.measure(fed, whole).body["metric/loss"]
    torch.testing.assert_close(again, scored, rtol=0, atol=1e-9, equal_nan=True)


@pytest.mark.parametrize("compensation", ["exact", "noisy"])
@pytest.mark.parametrize(
    "model", [MLP(hidden=5, dropout=0.0), GCN(hidden=5, dropout=0.0)], ids=["biases", "gcn"]
)
def test_other_encoders_do_not_mix_clients(model, compensation):
    parties = community_parties((6, 9, 5, 7), features=10)
    method = gfl(model=model, compensation=compensation, noise_scale=0.01)
    _, whole = trained(method, parties)
    for chunk in (1, 3):
        _, apart = trained(method, parties, chunk=chunk)
        for name, value in whole["model"].items():
            torch.testing.assert_close(apart["model"][name], value, rtol=0, atol=1e-9)


def test_an_encoder_with_biases_learns():
    parties = community_parties()
    method = gfl(model=MLP(hidden=8, dropout=0.0), optimizer=SGD(lr=0.3))
    losses = []
    for rounds in (1, 30):
        fed, state = trained(method, parties, rounds)
        losses.append(method.measure(fed, state).body["metric/loss"][:, 0].mean().item())
    assert losses[1] < losses[0] - 0.05


def test_noise_on_hidden_representations_is_of_the_deviation_asked_for():
    parties = community_parties((6, 9, 5, 7), features=10)
    clean = trained(gfl(), parties, rounds=0)
    method = gfl(hidden_noise=0.3)
    differences = []
    for seed in range(60):
        host = Host(method, Cohort(parties, dtype=torch.float64), seed=seed)
        state = method.exchange(InProcess(host), clean[1])
        exact = gfl().exchange(clean[0], clean[1])
        differences.append(state["context"]["others"] - exact["context"]["others"])
        assert torch.equal(state["gradient"]["units"], exact["gradient"]["units"])
    A = clean[1]["network"]["mixing"].clone().fill_diagonal_(0)
    expected = 0.3 * A.norm(dim=1)
    found = torch.stack(differences).std((0, 2))
    torch.testing.assert_close(found, expected, rtol=0.25, atol=0)
