"""The laws of the design, over every registered method."""

import numpy as np
import pytest
import torch
from support import NAMES, assert_same, assert_same_model, make, small_parties, train, usual, values

from atoll.federation.host import Host, PrivacyViolation
from atoll.federation.protocol import Reply, client_step
from atoll.graph import dense
from atoll.methods.base import methods
from atoll.models.sgc import SGC
from atoll.tree import kind, take, under
from small_federations import community_parties

every_method = pytest.mark.parametrize("name", NAMES)


@every_method
@pytest.mark.parametrize("dense", [False, True])
def test_cohort_law(name, dense):
    """All at once, in chunks, one by one: the same numbers. Also catches a leak between clients."""
    parties = small_parties(name, dense=dense)
    whole = train(make(name, epochs=2), parties)
    for chunk in (1, 3):
        assert_same(whole, train(make(name, epochs=2), parties, chunk=chunk), 1e-9)


@every_method
def test_wire_law(name):
    """Through bytes, one host per client: the same numbers."""
    assert_same(usual(name), train(make(name), small_parties(name), wire=True), 1e-9)


@every_method
def test_seed_law(name):
    """The same seed gives the same bytes, another seed does not."""
    parties = small_parties(name)
    first, again = (train(make(name), parties, seed=5) for _ in range(2))
    assert_same(first, again, 0.0)
    other = train(make(name), parties, seed=6)
    assert any(
        not torch.equal(values(first.clients[n]), values(other.clients[n])) for n in first.clients
    )


@every_method
def test_position_law(name):
    """A client's result does not depend on its position in the cohort."""
    parties = small_parties(name)
    method = make(name)
    if method.pooled:
        pytest.skip("one party only")
    straight = usual(name)
    order = list(range(len(parties)))[::-1]
    turned = train(method, parties[::-1], numbers=order)
    back = take(turned.clients, order)
    for n, leaf in straight.clients.items():
        torch.testing.assert_close(values(leaf), values(back[n]), rtol=1e-9, atol=1e-9, msg=n)


@every_method
def test_privacy_law(name):
    """Nothing private leaves, and every tensor that leaves is on record."""
    outcome = usual(name)
    table = outcome.fed.ledger.table()
    method = make(name)
    assert not set(table.filter(direction="up")["kind"]) & method.private
    replies = table.filter(step="evaluate", direction="up", round=1)
    assert replies["client"].n_unique() == len(outcome.fed.clients)
    scores = {"metric/accuracy", "metric/loss", "metric/nodes", "metric/extended"}
    assert scores == set(replies["name"])


@every_method
def test_no_private_value_leaves_under_another_name(name, monkeypatch):
    """Not by its name but by its numbers: no reply holds a client's data or private state."""
    replies = []
    original = Host.perform

    def overheard(self, call, to, each):
        for batch in original(self, call, to, each):
            replies.extend(values(leaf).detach().clone() for leaf in batch.body.values())
            yield batch

    monkeypatch.setattr(Host, "perform", overheard)
    parties = small_parties(name)
    method = make(name)
    outcome = train(method, parties)
    secrets = [values(leaf) for n, leaf in outcome.clients.items() if kind(n) in method.private]
    secrets += [torch.from_numpy(dense(g.x)) for g in parties]
    secrets += [torch.from_numpy(part) for g in parties for part in (g.y, g.edges)]
    assert replies
    for secret in secrets:
        for row in (secret, *secret):
            same = [r for r in replies if r.shape == row.shape and row.numel() > 1]
            assert not any(torch.equal(r.double(), row.double()) for r in same)


def test_a_method_that_sends_a_private_kind_is_stopped(monkeypatch):
    @client_step
    def leak(self, client):
        return Reply(optimizer={"steps": client.state["optimizer"]["steps"]})

    monkeypatch.setattr(methods["local"], "train", leak)
    with pytest.raises(PrivacyViolation, match="optimizer/steps"):
        train(make("local"), community_parties())


@every_method
def test_beats_the_majority_class(name):
    parties = small_parties(name, (40, 50, 45))
    outcome = train(make(name), parties, rounds=40)
    accuracy = np.asarray(outcome.replies.body["metric/accuracy"])[:, 2].mean()
    majority = np.mean([np.bincount(g.y[g.test]).max() / g.test.sum() for g in parties])
    assert accuracy > majority + 0.1


def test_one_client_makes_fed_avg_local_training():
    alone = community_parties((30,))
    local, federated = train(make("local"), alone), train(make("fed-avg"), alone)
    assert_same_model(local.clients, federated.clients)


def test_fed_avg_of_equal_clients_is_one_of_them():
    """The mean of the same model is that model (SGC: no dropout, so the twins stay equal)."""
    twins = community_parties((30,)) * 3
    federated = train(make("fed-avg", model=SGC()), twins)
    single = train(make("fed-avg", model=SGC()), twins[:1])
    for name, leaf in under(single.server, "model").items():
        torch.testing.assert_close(under(federated.server, "model")[name], leaf)
