"""Attacks on messages whose secrets are known: they find what is there, and nothing else."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from atoll.cli import main
from atoll.cohort import Cohort
from atoll.data.in_memory import from_graph
from atoll.experiment.choices import choose
from atoll.experiment.leaks import attacked
from atoll.experiment.runner import load_parties, run_experiment
from atoll.federation.messages import Message, read_messages
from atoll.graph import dense, make_graph
from atoll.leaves import Ragged
from atoll.methods.fed_avg import FedAvg
from atoll.models.mlp import MLP
from atoll.privacy.attacks import ATTACKS, Evidence
from atoll.privacy.attacks.link_stealing import pairs


def rings(count=2, groups=6, size=5, features=12, seed=0):
    """Parties of some separate rings each, with random features; every other node trains."""
    rng = np.random.default_rng(seed)
    n = groups * size
    at = np.arange(n)
    edges = np.stack([at, at // size * size + (at + 1) % size])
    parties = []
    for k in range(count):
        x = rng.random((n, features)).astype(np.float32)
        ids = np.array([f"{k}-{i}" for i in at])
        graph = make_graph(x, edges, at % 2, ids=ids, classes=2, name=f"party {k}")
        parties.append(replace(graph, train=at % 3 == 0, test=at % 3 == 1, val=at % 3 == 2))
    return parties


def sent(values, name="embedding/node", step="embed"):
    """One message of every party's nodes to the server."""
    blocks = [torch.from_numpy(np.asarray(v, dtype=np.float32)) for v in values]
    clients = tuple(range(len(blocks)))
    return Message(1, step, 0, "ask", True, clients, {}, {name: Ragged.of(blocks)})


def made(attack, evidence, attacker="server"):
    heard = []
    found = ATTACKS[attack](evidence, attacker, lambda: heard.append(1))
    assert len(heard) == len(evidence.victims(attacker))
    return found


def test_links_are_found_in_what_gives_them_away_and_in_nothing_else():
    parties = rings()
    ring = np.arange(30) // 5
    telling = [np.eye(6)[ring] for _ in parties]
    [finding] = made("link-stealing", Evidence([sent(telling)], parties, FedAvg()))
    assert finding.of == "embed: embedding/node"
    # A pair within a ring that is not linked looks linked; no other does.
    assert finding.score > 0.9
    assert 0.4 < finding.features_alone < 0.6
    rng = np.random.default_rng(1)
    noise = [rng.normal(size=(30, 200)) for _ in parties]
    [finding] = made("link-stealing", Evidence([sent(noise)], parties, FedAvg()))
    assert 0.35 < finding.score < 0.65


def test_pairs_are_all_links_among_the_rows_and_as_many_without():
    [graph] = rings(1)
    linked, apart = pairs(graph, np.array([0, 1, 2, 9, 14]), np.random.default_rng(0))
    assert {tuple(p) for p in linked.T.tolist()} == {(0, 1), (1, 2)}
    assert apart.shape == (2, 2)
    assert not {tuple(p) for p in apart.T.tolist()} & {(0, 1), (1, 2)}


def test_features_are_found_where_representations_are_made_of_them():
    parties = rings(3)
    secret = np.random.default_rng(2).normal(size=(12, 12))
    shared = [dense(g.x) @ secret for g in parties]
    finding, taken = made("feature-inversion", Evidence([sent(shared)], parties, FedAvg()))
    assert finding.victims == 2  # the one who helps is none
    assert finding.score > 0.999
    assert taken.measure == "nearest node, cosine"
    assert taken.score < 0.95
    raw = [dense(g.x) for g in parties]
    _, taken = made("feature-inversion", Evidence([sent(raw)], parties, FedAvg()))
    assert taken.score == pytest.approx(1.0, abs=1e-6)
    assert taken.victims == 3
    noise = [np.random.default_rng(k).normal(size=(30, 11)) for k in range(3)]
    [finding] = made("feature-inversion", Evidence([sent(noise)], parties, FedAvg()))
    assert finding.score <= finding.chance + 0.02


def update(x, y, hidden=16):
    """One step of gradient descent of an MLP on some points, as a message down and one up."""
    model = MLP(hidden=hidden, dropout=0.0)
    start = model.init(x.shape[1], 2, np.random.default_rng(0))
    before = {n: p.clone().requires_grad_() for n, p in start.items()}
    graph = make_graph(x, np.zeros((2, 0), dtype=np.int64), y, classes=2)
    scores = model.apply(
        {n: p[None] for n, p in before.items()}, Cohort([graph], dtype=torch.float64)
    )
    loss = torch.nn.functional.cross_entropy(scores, torch.from_numpy(y))
    grads = torch.autograd.grad(loss, list(before.values()))
    after = {n: (p - 0.1 * g).detach() for (n, p), g in zip(before.items(), grads, strict=True)}
    return model, {n: p.detach() for n, p in before.items()}, after


def test_the_features_of_a_single_training_node_are_in_its_gradient():
    [graph] = rings(1)
    only = np.arange(30) == 7
    party = replace(graph, train=only)
    model, before, after = update(dense(graph.x)[only].astype(np.float32), graph.y[only])
    call = (1, "train", 0, "sum")
    down = Message(*call, False, (0,), {f"model/{n}": p for n, p in before.items()}, {})
    up = Message(*call, True, (0,), {}, {f"model/{n}": p[None] for n, p in after.items()})
    evidence = Evidence([down, up], [party], FedAvg(model=model))
    near, *_ = made("gradient-inversion", evidence)
    assert near.score == pytest.approx(1.0, abs=1e-5)
    assert near.chance < 0.99
    assert (
        made("gradient-inversion", Evidence([down, up], [party], FedAvg(model=model)), "client")
        == []
    )


def test_training_nodes_of_a_model_that_learnt_by_heart_are_told_from_others(tmp_path):
    rng = np.random.default_rng(0)
    n = 120
    x = rng.normal(size=(n, 40)).astype(np.float32)
    y = rng.integers(0, 2, n)  # nothing to learn but by heart
    graph = make_graph(x, np.stack([np.arange(n), (np.arange(n) + 1) % n]), y, classes=2)
    fold = np.arange(n) // 2 % 3
    graph = replace(graph, train=fold == 0, val=fold == 1, test=fold == 2)
    experiment = choose(
        method=FedAvg(model=MLP(hidden=64, dropout=0.0), epochs=20),
        data=from_graph(graph), partition="random", clients=2, rounds=5,
        settings=[("run.keep_messages", True), ("split.kind", "public")],
    )  # fmt: skip
    run_experiment(experiment, tmp_path / "run")
    parties = load_parties(experiment)
    evidence = Evidence(read_messages(tmp_path / "run"), parties.graphs, experiment.method)
    plain, calibrated = made("membership", evidence)
    assert plain.score > 0.8
    assert calibrated.of == "model, loss calibrated"
    [by_client] = made("membership", evidence, "client")
    assert by_client.score > 0.6


def test_the_command_has_tables_and_json_and_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    experiment = choose(
        method="fed-avg", data="patients", partition="random", clients=3, rounds=2,
        settings=[("run.keep_messages", True), ("model.hidden", 8)],
    )  # fmt: skip
    run_experiment(experiment, tmp_path / "run")
    monkeypatch.setattr("sys.argv", ["atoll", "attack", "run", "membership", "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    found = json.loads(capsys.readouterr().out)
    assert {f["attack"] for f in found} == {"membership"}
    assert {f["attacker"] for f in found} == {"server", "client"}
    assert all(0 <= f["score"] <= 1 and f["features_alone"] is None for f in found)
    monkeypatch.setattr("sys.argv", ["atoll", "attack", "run", "memberships"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "did you mean 'membership'?" in capsys.readouterr().err
    assert [f.row() for f in attacked(tmp_path / "run", ["membership"])] == found
