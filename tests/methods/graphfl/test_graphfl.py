"""GraphFL's Algorithm 1 against a plain loop, one client after the other."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support import assert_same, assert_same_model, make, train

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.graph import dense
from atoll.methods.client import Client
from atoll.methods.graphfl import GraphFL
from atoll.models.gcn import GCN
from atoll.models.sgc import SGC
from atoll.optimizers.sgd import SGD
from atoll.rng import CohortRng
from atoll.tree import under
from small_federations import community_parties

ALPHA, BETA, EPOCHS = 0.4, 0.05, 3
PLAIN = {"model": SGC(), "optimizer": SGD(lr=ALPHA), "beta": BETA, "epochs": EPOCHS}


def regression(graph, mask):
    """``P^2 X`` with a column of ones, and labels, of some nodes."""
    a = torch.eye(graph.nodes, dtype=torch.float64)
    a[graph.edges[1], graph.edges[0]] = 1.0
    scale = a.sum(1) ** -0.5
    p = scale[:, None] * a * scale
    x = p @ p @ torch.from_numpy(dense(graph.x)).double()
    rows = torch.from_numpy(mask)
    ones = torch.ones(len(x), 1, dtype=torch.float64)
    return torch.cat([x, ones], dim=1)[rows], torch.from_numpy(graph.y)[rows]


def loss(w, x, y):
    return torch.nn.functional.cross_entropy(x @ w, y)


def descended(w, x, y, through=False):
    for _ in range(EPOCHS):
        (slope,) = torch.autograd.grad(loss(w, x, y), w, create_graph=through)
        w = w - ALPHA * slope
        w = w if through else w.detach().requires_grad_()
    return w


def algorithm_1(parties, w, episodes, order):
    """As it is printed; everybody takes part."""
    support = [regression(g, g.train) for g in parties]
    query = [regression(g, g.val) for g in parties]
    for _ in range(episodes):
        total = torch.zeros_like(w)
        for s, q in zip(support, query, strict=True):
            start = w.detach().requires_grad_()
            adapted = descended(start, *s, through=order == "second")
            at = start if order == "second" else adapted
            total += torch.autograd.grad(loss(adapted, *q), at)[0]
        hat = (w - BETA * total).detach().requires_grad_()
        w = torch.stack([descended(hat, *s) for s in support]).mean(0).detach()
    return w


@pytest.mark.parametrize("order", ["first", "second"])
def test_two_episodes_are_those_of_the_plain_loop(order):
    parties = community_parties()
    first = under(train(make("graphfl", **PLAIN), parties, rounds=0).server, "model")
    w = algorithm_1(parties, torch.cat([first["weight"], first["bias"][None]]), 2, order)
    found = under(train(make("graphfl", **PLAIN, order=order), parties, rounds=2).server, "model")
    torch.testing.assert_close(torch.cat([found["weight"], found["bias"][None]]), w)


def test_the_mean_of_gradients_is_their_sum_with_a_smaller_step():
    parties = community_parties((20, 24, 28))
    whole = train(make("graphfl", **PLAIN | {"beta": 0.1}), parties, rounds=2)
    more = {"beta": 0.3, "meta_step": "mean"}
    shared = train(make("graphfl", **PLAIN | more), parties, rounds=2)
    assert_same_model(whole.server, shared.server)


def test_without_a_meta_step_it_is_fed_avg_of_equal_clients():
    parties = community_parties((24, 24, 24, 24))
    options = {"model": SGC(), "optimizer": SGD(lr=ALPHA), "epochs": EPOCHS}
    meta, avg = (
        train(make(name, **options, **more), parties)
        for name, more in (("graphfl", {"beta": 0.0}), ("fed-avg", {}))
    )
    assert_same_model(meta.server, avg.server)


def test_the_mean_is_plain_whatever_the_number_of_labels():
    """FedAvg weighs by labels, GraphFL's eq. 8 does not."""
    parties = community_parties()
    options = {"model": SGC(), "optimizer": SGD(lr=ALPHA)}
    outcome = train(make("graphfl", **options, beta=0.0), parties, rounds=1)
    for name, leaf in under(outcome.clients, "model").items():
        torch.testing.assert_close(under(outcome.server, "model")[name], leaf.mean(0))


@pytest.mark.parametrize("literal", [False, True])
def test_other_weights_are_those_of_the_finetuned_models(literal):
    """``sum_k s_k n_k theta_k / sum_k s_k n_k``, or to the letter ``/ (s n)``."""
    parties = community_parties()
    weights = {"weights": "labelled-and-size", "literal_weights": literal}
    outcome = train(make("graphfl", **PLAIN, **weights), parties, rounds=1)
    s = torch.tensor([float(g.train.sum()) for g in parties], dtype=torch.float64)
    n = torch.tensor([float(g.nodes) for g in parties], dtype=torch.float64)
    divisor = s.sum() * n.sum() if literal else (s * n).sum()
    for name, leaf in under(outcome.clients, "model").items():
        expected = torch.tensordot(s * n / divisor, leaf, dims=1)
        torch.testing.assert_close(under(outcome.server, "model")[name], expected)
        assert not torch.allclose(expected, leaf.mean(0))


def test_a_client_without_queries_takes_part_in_the_second_stage_only():
    parties = community_parties()
    silent = replace(parties[0], val=np.zeros(parties[0].nodes, dtype=bool))
    outcome = train(make("graphfl", **PLAIN), [silent, *parties[1:]], rounds=1)
    expected = train(make("graphfl", **PLAIN), parties, rounds=1)
    assert not torch.equal(
        under(outcome.server, "model")["weight"], under(expected.server, "model")["weight"]
    )
    assert not outcome.fed.rejections


def test_without_any_query_the_first_stage_changes_nothing():
    parties = [replace(g, val=np.zeros(g.nodes, dtype=bool)) for g in community_parties()]
    meta = train(make("graphfl", **PLAIN), parties)
    plain = train(make("graphfl", **{**PLAIN, "beta": 0.0}), parties)
    assert_same_model(meta.server, plain.server)


def test_the_server_sees_gradients_and_models_and_the_global_model_is_scored():
    outcome = train(make("graphfl"), community_parties(), rounds=1)
    up = outcome.fed.ledger.table().filter(direction="up", round=1)
    assert set(up.filter(step="query_gradient")["kind"]) == {"gradient", "weight"}
    assert set(up.filter(step="finetune")["kind"]) == {"model", "weight"}
    cohort = outcome.fed.host.cohort
    model = {n: p.expand(6, *p.shape) for n, p in under(outcome.server, "model").items()}
    right = make("graphfl").model.apply(model, cohort).argmax(1) == cohort.y
    expected = right[cohort.rows("test")].double().mean()
    nodes = outcome.replies.body["metric/nodes"][:, 2]
    scored = (outcome.replies.body["metric/accuracy"][:, 2] * nodes).sum() / nodes.sum()
    assert scored.item() == pytest.approx(expected.item())


def test_the_same_clients_take_part_in_both_stages():
    outcome = train(make("graphfl", fraction=0.5), community_parties(), rounds=2)
    table = outcome.fed.ledger.table().filter(direction="up")
    for r in (1, 2):
        stages = [
            set(table.filter(round=r, step=s)["client"]) for s in ("query_gradient", "finetune")
        ]
        assert stages[0] == stages[1]
        assert len(stages[0]) == 3


def test_one_cluster_is_the_whole_graph():
    parties = community_parties()
    model = GCN(hidden=4, dropout=0.0)
    whole = train(make("graphfl", model=model), parties)
    one = train(make("graphfl", model=model, clusters=1), parties)
    assert_same_model(whole.server, one.server)


@pytest.mark.parametrize("chunk", [1, 4])
def test_cluster_batches_obey_the_cohort_law(chunk):
    options = {"clusters": 3, "epochs": 2}
    whole = train(make("graphfl", **options), community_parties())
    assert_same(whole, train(make("graphfl", **options), community_parties(), chunk=chunk), 1e-9)


def test_a_step_on_clusters_sees_those_clusters_only():
    cohort = Cohort(community_parties((30,)), dtype=torch.float64)
    method = make("graphfl", clusters=3, model=SGC())
    params = train(method, community_parties((30,)), rounds=0).server
    theta = {n: p[None] for n, p in under(params, "model").items()}
    clients = [Client(method, cohort, CohortRng(0, [0], r, "step"), {}) for r in range(30)]
    losses = {round(client.loss(theta, training=True).item(), 9) for client in clients}
    assert len(losses) == 3
    assert round(clients[0].loss(theta).item(), 9) not in losses


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beta": -1.0}, "method.beta is -1"),
        ({"clusters": -1}, "method.clusters is -1"),
        ({"batch": 0}, "method.batch is 0"),
        ({"order": "second"}, "use the optimizer 'sgd' without momentum"),
        ({"order": "second", "optimizer": SGD(momentum=0.9)}, "without momentum"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(AtollError, match=message):
        GraphFL(**options)
