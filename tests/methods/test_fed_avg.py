"""FedAvg against an independent loop in plain PyTorch: same parties, same initial weights."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.experiment.runner import load_parties, simulate
from atoll.federation.host import Host
from atoll.federation.inprocess import InProcess
from atoll.graph import dense
from atoll.methods.base import Info, initial_model
from atoll.methods.fed_avg import FedAvg
from atoll.models.gcn import GCN
from small_federations import community_parties, needs_data


def adjacency(graph):
    """D^-1/2 (A + I) D^-1/2, dense, from the edge list."""
    a = torch.eye(graph.nodes, dtype=torch.float64)
    for u, v in graph.edges.T:
        a[v, u] = 1.0
    scale = a.sum(1) ** -0.5
    return scale[:, None] * a * scale


def plain_loop(parties, start, rounds, lr, weight_decay):
    """One model, optimizer and graph per client; nothing stacked. Losses [rounds][clients]."""
    clients = []
    for graph in parties:
        weights = {name: w.clone().requires_grad_() for name, w in start.items()}
        adam = torch.optim.Adam(weights.values(), lr=lr, weight_decay=weight_decay)
        x, y = torch.from_numpy(dense(graph.x)).double(), torch.from_numpy(graph.y)
        clients.append((weights, adam, adjacency(graph), x, y, torch.from_numpy(graph.train)))
    total = sum(float(mask.sum()) for *_, mask in clients)
    server, history = start, []

    def loss(w, a, x, y, mask):
        h = (a @ (x @ w["conv1.weight"]) + w["conv1.bias"]).relu()
        h = (a @ (h @ w["conv2.weight"]) + w["conv2.bias"]).relu()
        return cross_entropy((h @ w["classifier.weight"] + w["classifier.bias"])[mask], y[mask])

    for _ in range(rounds):
        mean = {name: torch.zeros_like(w) for name, w in server.items()}
        losses = []
        for weights, adam, *data in clients:
            with torch.no_grad():
                for name, w in weights.items():
                    w.copy_(server[name])
            adam.zero_grad()
            loss(weights, *data).backward()
            adam.step()
            share = float(data[-1].sum()) / total
            with torch.no_grad():
                losses.append(loss(weights, *data).item())
                for name, w in weights.items():
                    mean[name] += share * w
        server = mean
        history.append(losses)
    return history, server


def compare(experiment, parties):
    fed, state = simulate(experiment, parties)
    start = state["model"]
    optimizer = experiment.method.optimizer
    expected, server = plain_loop(parties.graphs, start, 5, optimizer.lr, optimizer.weight_decay)
    for r in range(1, 6):
        fed.begin(r)
        state = experiment.method.round(fed, state, r)
        body = experiment.method.measure(fed, state).body
        assert body["metric/loss"][:, 0].tolist() == pytest.approx(expected[r - 1], abs=1e-9)
    for name, w in state["model"].items():
        torch.testing.assert_close(w, server[name], rtol=0, atol=1e-9)


def experiment_on(data, partition, clients):
    return resolve(
        {
            "method": {"name": "fed-avg"},
            "data": {"name": data},
            "partition": {"name": partition, "clients": clients},
            "model": {"dropout": 0.0, "hidden": 32},
            "optimizer": {"weight_decay": 1e-6},
            "run": {"dtype": "float64"},
        }
    )


@pytest.mark.parametrize("partition", ["random", "metis"])
def test_the_same_losses_as_a_plain_loop_on_digits(partition):
    experiment = experiment_on("digits", partition, 5)
    compare(experiment, load_parties(experiment))


@needs_data
def test_the_same_losses_as_a_plain_loop_on_cora():
    experiment = experiment_on("cora", "metis", 10)
    compare(experiment, load_parties(experiment))


def federation(method, parties):
    cohort = Cohort(parties, dtype=torch.float64)
    fed = InProcess(Host(method, cohort, seed=0))
    info = Info(len(parties), cohort.features, cohort.classes, torch.float64)
    return fed, method.start(info, 0)


def test_a_fraction_of_the_clients_trains_and_the_others_stay_as_they_were():
    parties = community_parties()
    method = FedAvg(model=GCN(hidden=4), fraction=0.5)
    fed, state = federation(method, parties)
    before = {name: leaf.clone() for name, leaf in fed.host.state.items()}
    chosen = []
    for r in range(1, 5):
        fed.begin(r)
        state = method.round(fed, state, r)
        up = fed.ledger.table().filter(direction="up", step="train", round=r)
        chosen.append(tuple(sorted(set(up["client"]))))
    assert all(len(clients) == 3 for clients in chosen)
    assert len(set(chosen)) > 1
    never = set(range(6)) - {c for clients in chosen[:1] for c in clients}
    fed, state = federation(method, parties)
    fed.begin(1)
    method.round(fed, state, 1)
    for client in never:
        for name, leaf in fed.host.state.items():
            assert torch.equal(leaf[client], before[name][client])


def test_weights_are_labelled_nodes():
    parties = community_parties()
    fed, state = federation(FedAvg(model=GCN(hidden=4)), parties)
    fed.begin(1)
    total = fed.sum("train", shared=state, expect=state, weighted=True)
    assert total.weight == sum(int(g.train.sum()) for g in parties)


def test_global_evaluation_scores_the_average_for_everyone():
    parties = community_parties()
    method = FedAvg(model=GCN(hidden=4, dropout=0.0), evaluates="global")
    fed, state = federation(method, parties)
    fed.begin(1)
    state = method.round(fed, state, 1)
    body = method.measure(fed, state).body
    everyone = {n: leaf.expand(6, *leaf.shape) for n, leaf in state["model"].items()}
    cohort = fed.host.cohort
    logits = method.model.apply(everyone, cohort)
    right = (logits.argmax(1) == cohort.y).numpy()
    test = np.concatenate([g.test for g in parties])
    client = cohort.batch.numpy()
    expected = [right[test & (client == k)].mean() for k in range(6)]
    assert body["metric/accuracy"][:, 2].tolist() == pytest.approx(expected)


def test_fresh_optimizers_forget_their_moments():
    parties = community_parties()
    kept, fresh = (
        federation(FedAvg(model=GCN(hidden=4), keep_optimizer=keep), parties)
        for keep in (True, False)
    )
    for fed, state in (kept, fresh):
        method = fed.host.method
        for r in (1, 2):
            fed.begin(r)
            state = method.round(fed, state, r)
    assert kept[0].host.state["optimizer/steps"].tolist() == [2.0] * 6
    assert fresh[0].host.state["optimizer/steps"].tolist() == [1.0] * 6


@pytest.mark.parametrize("fraction", [0.0, 1.5, -0.1])
def test_impossible_fractions_are_refused(fraction):
    with pytest.raises(AtollError, match=r"method\.fraction"):
        FedAvg(fraction=fraction)


def test_the_initial_model_follows_from_the_seed():
    one, same, other = (initial_model(GCN(), 5, 2, torch.float32, seed) for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["conv1.weight"], other["conv1.weight"])
