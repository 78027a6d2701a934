"""AdaFGL's personal phase against its formulas in NumPy."""

import numpy as np
import polars
import pytest
import torch
from support import make, train

from atoll.cohort import Cohort
from atoll.methods.ada_fgl import knowledge as made
from atoll.methods.ada_fgl import signed
from atoll.methods.ada_fgl.knowledge import homophily
from atoll.models.gcn import GCN
from atoll.optimizers.sgd import SGD
from atoll.rng import CohortRng, server_stream, stream
from atoll.tree import under
from complex_step import (
    assert_equal,
    client,
    cross_entropy,
    dense_x,
    gcn,
    relu,
    softmax,
    stepped,
    unit,
)
from small_federations import community_parties, path_graph

LR, ALPHA, BETA, LEVEL, HOPS = 0.1, 0.3, 0.4, 0.9997, 2
OPTIONS = {
    "model": GCN(hidden=4, dropout=0.0),
    "optimizer": SGD(lr=LR),
    "federated_rounds": 1,
    "personal_epochs": 1,
    "alpha": ALPHA,
    "beta": BETA,
    "alike": LEVEL,
    "hops": HOPS,
    "hidden": 2,
    "dropout": 0.0,
}
PARTIES, FEATURES = (8, 6, 7), 8


def parties():
    return community_parties(PARTIES, classes=2, features=FEATURES)


def scores():
    cohort = Cohort(parties(), dtype=torch.float64)
    return homophily(cohort, CohortRng(0, (0, 1, 2), 2, "any step"))


def shares(w, graph):
    P, x = gcn(graph), dense_x(graph)
    h = relu(
        P @ relu(P @ x @ w["conv1.weight"] + w["conv1.bias"]) @ w["conv2.weight"] + w["conv2.bias"]
    )
    return softmax(h @ w["classifier.weight"] + w["classifier.bias"])


def alike(pr):
    S = (unit(pr) @ unit(pr).T > LEVEL).astype(float)
    np.fill_diagonal(S, 0)
    return S


def smoothed(graph, pr):
    a = ALPHA * graph.adjacency.toarray() + (1 - ALPHA) * alike(pr) + np.eye(graph.nodes)
    d = a.sum(1) ** -0.5
    found = [dense_x(graph)]
    for _ in range(HOPS):
        found.append(d[:, None] * a * d @ found[-1])
    return np.hstack(found)


def prelu(x, slope):
    return np.where(x.real > 0, x, slope * x)


def mlp(p, name, x, slope):
    depth = 1
    while f"{name}{depth}.weight" in p:
        x = (prelu(x, slope) if depth > 1 else x) @ p[f"{name}{depth}.weight"] + p[
            f"{name}{depth}.bias"
        ]
        depth += 1
    return x


def homophilous(p, graph, pr):
    return mlp(p, "smooth", smoothed(graph, pr), p["slope"])


def heterophilous(p, graph, pr):
    wide = smoothed(graph, pr)
    e = mlp(p, "message", wide, p["message_slope"])
    v = unit(softmax(e))
    R = BETA * alike(pr) + (1 - BETA) * (v @ v.T) * (1 - np.eye(graph.nodes))
    m, top = R.mean(), R.flat[R.real.argmax()]
    Q = np.where(R.real > m.real, (R - m) / (top - m), -R / m) + np.eye(graph.nodes)
    Q[np.diag_indices(graph.nodes)] = 1
    positive, negative = prelu(Q, p["message_slope"]), prelu(-Q, p["message_slope"])
    message = (softmax(positive @ e) - softmax(negative @ e) + e) / 2
    return mlp(p, "local", dense_x(graph), p["slope"]), mlp(p, "smooth", wide, p["slope"]), message


def homophilous_loss(p, graph, pr):
    H = homophilous(p, graph, pr)
    return cross_entropy(H, graph) + ((H - pr) ** 2).mean()


def heterophilous_loss(p, graph, pr):
    return sum(cross_entropy(logits, graph) for logits in heterophilous(p, graph, pr))


@pytest.mark.parametrize("block", [1024, 2])
def test_a_personal_step_of_both_branches_is_that_of_the_formulas(block, monkeypatch):
    """Whether pairs of nodes are made at once or in blocks of two rows."""
    monkeypatch.setattr(signed, "BLOCK", block)
    monkeypatch.setattr(made, "BLOCK", block)
    method = make("ada-fgl", combine="weigh", **OPTIONS)
    outcome = train(method, parties(), rounds=2)
    w = {n.removeprefix("model/"): p.numpy() for n, p in outcome.server.items() if "model/" in n}
    losses = {"homophilous": homophilous_loss, "heterophilous": heterophilous_loss}
    score_K, trained = scores(), []
    for k, graph in enumerate(parties()):
        pr = shares(w, graph)
        assert 0 < alike(pr).sum() < graph.nodes * (graph.nodes - 1)
        for name, loss in losses.items():
            first = method.branches[name].init(
                FEATURES, FEATURES * (HOPS + 1), 2, server_stream(0, 0, name)
            )
            first = {n: p.numpy() for n, p in first.items()}
            expected = stepped(lambda p, g=graph, pr=pr, loss=loss: loss(p, g, pr), first, LR)
            # A branch that counts nothing at a client is not trained there.
            counts = score_K[k] > 0 if name == "homophilous" else score_K[k] < 1
            assert_equal(client(outcome.clients, name, k), expected if counts else first)
            trained.append((name, bool(counts)))
    assert {("homophilous", True), ("heterophilous", True)} <= set(trained)


def test_clients_are_scored_with_both_branches_weighed_by_their_homophily():
    outcome = train(make("ada-fgl", combine="weigh", **OPTIONS), parties(), rounds=2)
    w = {n.removeprefix("model/"): p.numpy() for n, p in outcome.server.items() if "model/" in n}
    score_K = scores()
    for k, graph in enumerate(parties()):
        pr, score = shares(w, graph), float(score_K[k])
        one, other = (client(outcome.clients, name, k) for name in ("homophilous", "heterophilous"))
        first = (softmax(homophilous(one, graph, pr)) + softmax(pr)) / 2
        second = sum(softmax(logits) for logits in heterophilous(other, graph, pr)) / 3
        used = score * first + (1 - score) * second
        rows = np.flatnonzero(graph.train)
        loss = -np.log(used[rows, graph.y[rows]]).mean()
        found = float(outcome.replies["metric"]["loss"][k, 0])
        assert found == pytest.approx(loss, abs=1e-10)


def test_the_switch_trains_one_branch_and_leaves_the_other():
    low, high = (
        train(make("ada-fgl", **OPTIONS, threshold=t), parties(), rounds=2) for t in (0.0, 1.5)
    )
    before = train(make("ada-fgl", **OPTIONS), parties(), rounds=1).clients
    for outcome, trained, left in (
        (low, "homophilous", "heterophilous"),
        (high, "heterophilous", "homophilous"),
    ):
        name = f"{trained}/smooth1.weight"
        assert not torch.equal(outcome.clients[name], before[name])
        name = f"{left}/smooth1.weight"
        assert torch.equal(outcome.clients[name], before[name])


def test_homophily_is_the_accuracy_of_propagated_labels_on_the_hidden_half():
    graph = community_parties((20,), classes=3)[0]
    found = homophily(Cohort([graph], clients=[4], dtype=torch.float64), CohortRng(7, (4,), 3, "x"))
    nodes = stream(7, 4, 0, "hidden half").permutation(np.flatnonzero(graph.train))
    shown, hidden = nodes[: len(nodes) // 2], nodes[len(nodes) // 2 :]
    y0 = np.full((20, 3), 1 / 3)
    y0[shown] = np.eye(3)[graph.y[shown]]
    y = y0
    for _ in range(10):
        y = 0.5 * gcn(graph) @ y + 0.5 * y0
        y[shown] += y0[shown]
    assert float(found[0]) == np.mean(y[hidden].argmax(1) == graph.y[hidden])


@pytest.mark.parametrize(("y", "homophilous"), [([0, 0, 0, 0], True), ([0, 1] * 3, False)])
def test_neighbours_of_one_class_are_homophilous_and_alternating_ones_are_not(y, homophilous):
    graph = path_graph(np.eye(len(y)), y)
    found = homophily(Cohort([graph], dtype=torch.float64), CohortRng(0, (0,), 1, "x"))
    assert (float(found[0]) >= 0.9) == homophilous


def test_the_common_model_is_sent_once_and_then_nothing():
    fed = train(make("ada-fgl", **OPTIONS), parties(), rounds=4).fed
    rows = fed.ledger.table().filter(polars.col("step") == "personalise").to_dicts()
    assert {(r["round"], r["direction"]) for r in rows} == {(2, "down")}
    assert {r["kind"] for r in rows} == {"model"}


def test_a_single_node_has_no_neighbours_to_propagate_to():
    lonely = path_graph(np.ones((1, FEATURES)), [0])
    outcome = train(make("ada-fgl", **OPTIONS, threshold=1.5), [lonely, *parties()], rounds=3)
    assert all(v.isfinite().all() for v in outcome.clients.values())


def test_as_long_as_all_rounds_are_common_it_is_fed_avg():
    own = {"epochs": 2, "model": OPTIONS["model"], "optimizer": OPTIONS["optimizer"]}
    common = train(make("ada-fgl", federated_rounds=3, **own), parties(), rounds=3)
    average = train(make("fed-avg", **own), parties(), rounds=3)
    for name, leaf in under(average.server, "model").items():
        torch.testing.assert_close(under(common.server, "model")[name], leaf, rtol=0, atol=0)
    for name, leaf in under(average.clients, "model").items():
        torch.testing.assert_close(under(common.clients, "model")[name], leaf, rtol=0, atol=0)


def test_a_run_that_ends_too_soon_says_so():
    method = make("ada-fgl", federated_rounds=9)
    outcome = train(method, parties(), rounds=2)
    [remark] = method.remarks({"phase": {"personal": outcome.server["phase/personal"]}}, None)
    assert "federated_rounds (9)" in remark
    done = train(method.hurried(), parties(), rounds=3)
    assert method.remarks({"phase": {"personal": done.server["phase/personal"]}}, None) == []
