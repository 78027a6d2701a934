"""What every general baseline must bear: lost replies, links, other models and optimizers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support import assert_same_model, engine, make, train

from atoll.errors import AtollError
from atoll.federation.validation import without
from atoll.methods.base import Info
from atoll.models.gat import GAT
from atoll.models.mlp import MLP
from atoll.models.sage import SAGE
from atoll.models.sgc import SGC
from atoll.optimizers.sgd import SGD
from atoll.tasks.links import LinkPrediction
from atoll.tree import flat, under
from small_federations import community_parties

NAMES = ["scaffold", "moon", "fed-dc", "fed-dyn", "fed-proto", "ditto", "fed-nova"]
every_baseline = pytest.mark.parametrize("name", NAMES)


def rounds_with(method, parties, change, rounds=3):
    """The server's state where replies of the second round are changed on their way."""
    fed, _ = engine(method, parties, None, 0, 0, False)
    original = fed.deliver

    def deliver(call, to, each):
        for batch in original(call, to, each):
            yield change(batch) if call.round == 2 and call.step == "train" else batch

    fed.deliver = deliver
    info = Info(len(parties), parties[0].features, parties[0].classes, torch.float64)
    server = method.start(info, 0)
    for r in range(1, rounds + 1):
        fed.begin(r)
        server = method.round(fed, server, r)
    return fed, flat(server)


def spoiled(batch):
    """Client 1 replies with numbers that are none."""
    body = {name: leaf.clone() for name, leaf in batch.body.items()}
    next(iter(body.values()))[1] = torch.nan
    return replace(batch, body=body)


@every_baseline
def test_a_bad_reply_is_done_without(name):
    """As if it had not come at all; the client is there again in the next round."""
    parties, method = community_parties(), make(name, epochs=2)
    fed, bad = rounds_with(method, parties, spoiled)
    _, silent = rounds_with(method, parties, lambda batch: without(batch, [1]))
    _, whole = rounds_with(method, parties, lambda batch: batch)
    assert [(r.round, r.client) for r in fed.rejections] == [(2, 1)]
    for leaf, expected in silent.items():
        torch.testing.assert_close(bad[leaf], expected, rtol=0, atol=1e-12, msg=leaf)
        assert bad[leaf].isfinite().all()
    assert any(not torch.equal(bad[leaf], whole[leaf]) for leaf in whole)


@every_baseline
def test_a_share_of_the_clients_is_enough_to_learn(name):
    parties = community_parties((40, 50, 45, 35))
    outcome = train(make(name, fraction=0.5), parties, rounds=60)
    accuracy = np.asarray(outcome.replies.body["metric/accuracy"])[:, 2].mean()
    majority = np.mean([np.bincount(g.y[g.test]).max() / g.test.sum() for g in parties])
    assert accuracy > majority + 0.1


@pytest.mark.parametrize("name", [n for n in NAMES if n != "fed-proto"])
def test_links_are_predicted(name):
    task = LinkPrediction(dimensions=4)
    rng = np.random.default_rng(0)
    parties = [task.prepare(g, rng) for g in community_parties((40, 50, 45))]
    outcome = train(make(name, task=task, epochs=2), parties, rounds=30)
    auc = outcome.replies.body["metric/auc"][:, 0]
    assert (auc > 0.6).all()


@every_baseline
@pytest.mark.parametrize("model", [SAGE(hidden=4), GAT(hidden=2, heads=2), MLP(hidden=4), SGC()])
def test_any_model_and_momentum(name, model):
    optimizer = SGD(lr=0.1, momentum=0.5)
    method = make(name, model=model, optimizer=optimizer, keep_optimizer=False, epochs=3)
    outcome = train(method, community_parties((12, 15, 9)))
    first, last = outcome.scores[0], outcome.scores[-1]
    assert (last["metric"]["loss"][:, 0] < first["metric"]["loss"][:, 0]).all()


@every_baseline
def test_sums_are_all_that_the_server_needs(name):
    """Nothing but scores is seen one by one, so it can run under secure aggregation."""
    outcome = train(make(name), community_parties((12, 15, 9)))
    table = outcome.fed.ledger.table().filter(direction="up")
    assert set(table.filter(verb="ask")["step"]) == {"evaluate"}


@pytest.mark.parametrize("weights", ["labelled", "labelled-and-size", "equal"])
@pytest.mark.parametrize("name", ["scaffold", "moon", "fed-nova", "fed-dc", "fed-dyn"])
def test_weights_are_honoured(name, weights):
    """One step each: the mean of the clients' models, past which fed-dc and fed-dyn go"""
    parties = community_parties()
    s = torch.tensor([float(g.train.sum()) for g in parties]).double()
    n = torch.tensor([float(g.nodes) for g in parties]).double()
    w = {"labelled": s, "labelled-and-size": s * n, "equal": torch.ones_like(s)}[weights]
    method = make(name, weights=weights, epochs=1)
    start = under(train(method, parties, rounds=0).server, "model")
    outcome = train(method, parties, rounds=1)
    for leaf, theta in under(outcome.clients, "model").items():
        mean = torch.tensordot(w / w.sum(), theta, dims=1)
        expected = 2 * mean - start[leaf] if name in ("fed-dc", "fed-dyn") else mean
        torch.testing.assert_close(under(outcome.server, "model")[leaf], expected, msg=leaf)


@pytest.mark.parametrize("name", ["scaffold", "fed-dc", "fed-dyn"])
def test_weights_that_do_not_sum_to_one_are_refused(name):
    with pytest.raises(AtollError, match=r"method\.literal_weights"):
        make(name, weights="labelled-and-size", literal_weights=True)


def test_literal_weights_of_equal_steps_are_those_of_fed_avg():
    parties = community_parties()
    options = {"weights": "labelled-and-size", "literal_weights": True, "epochs": 2}
    plain, same = (
        train(make("fed-avg", **options), parties),
        train(make("fed-nova", local_epochs="same", **options), parties),
    )
    assert_same_model(plain.server, same.server)
