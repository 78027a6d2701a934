"""The laws of the design, over every registered method."""

import pytest
import torch
from support import NAMES, assert_same_model, make, subject, train, usual

from atoll.federation.calls import Reply, client_step
from atoll.federation.host import PrivacyViolation
from atoll.laws import LAWS
from atoll.methods.base import methods
from atoll.models.sgc import SGC
from atoll.tree import under
from small_federations import community_parties

every_method = pytest.mark.parametrize("name", NAMES)


@every_method
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_law(name, law):
    broken = law.check(subject(name))
    if broken is None:
        pytest.skip("has no meaning for this method")
    assert broken == ""


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


def test_a_method_that_sends_a_private_kind_is_stopped(monkeypatch):
    @client_step
    def leak(self, client):
        return Reply(optimizer={"steps": client.state["optimizer"]["steps"]})

    monkeypatch.setattr(methods["local"], "train", leak)
    with pytest.raises(PrivacyViolation, match="optimizer/steps"):
        train(make("local"), community_parties())


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
