import pytest
import torch
from support import assert_same_model, make, train

from atoll.errors import AtollError
from atoll.methods.fed_prox import FedProx
from atoll.methods.proximal import adapted
from atoll.models.gcn import GCN
from atoll.ops.optimize import SGD
from atoll.tree import sq_dist, under
from small_federations import community_parties


def test_without_a_pull_it_is_fed_avg():
    parties = community_parties()
    plain, free = (
        train(make("fed-avg", epochs=3), parties),
        train(make("fed-prox", epochs=3, mu=0.0), parties),
    )
    assert_same_model(plain.clients, free.clients)
    assert_same_model(plain.server, free.server)


def test_with_one_local_step_it_is_fed_avg():
    """The pull is zero where local training starts."""
    parties = community_parties()
    assert_same_model(
        train(make("fed-avg"), parties).server, train(make("fed-prox", mu=5.0), parties).server
    )


def test_a_stronger_pull_keeps_clients_nearer_to_the_global_model():
    parties = community_parties()

    def drift(mu):
        outcome = train(make("fed-prox", epochs=8, mu=mu), parties, rounds=1)
        start = train(make("fed-prox", epochs=8, mu=mu), parties, rounds=0).server
        return sq_dist(under(outcome.clients, "model"), under(start, "model"))

    weak, strong = drift(0.01), drift(50.0)
    assert (strong < weak).all()


def pull(mu=1.0, loss=2.0, falls=0.0):
    return {
        k: torch.tensor(v, dtype=torch.float64)
        for k, v in (("mu", mu), ("loss", loss), ("falls", falls))
    }


@pytest.mark.parametrize(
    ("before", "loss", "mu", "falls"),
    [
        (pull(), 2.5, 1.1, 0),  # the loss rises
        (pull(), 1.9, 1.0, 1),  # the first fall
        (pull(falls=3.0), 1.9, 1.0, 4),
        (pull(falls=4.0), 1.9, 0.9, 0),  # the fifth in a row
        (pull(falls=4.0), 2.5, 1.1, 0),  # a rise ends the row
        (pull(falls=4.0), 2.0, 1.0, 0),  # neither
        (pull(mu=0.05, falls=4.0), 1.9, 0.0, 0),  # never negative
        (pull(loss=float("inf")), 3.0, 1.0, 1),  # the first round
    ],
)
def test_mu_follows_the_loss(before, loss, mu, falls):
    after = adapted(before, torch.tensor(loss, dtype=torch.float64))
    assert after["mu"].item() == pytest.approx(mu)
    assert after["falls"].item() == falls
    assert after["loss"].item() == loss


def test_the_adaptive_pull_moves_and_only_a_loss_is_sent_besides():
    outcome = train(make("fed-prox", adaptive=True, epochs=2), community_parties(), rounds=12)
    assert outcome.server["prox/mu"].item() != 1.0
    up = outcome.fed.ledger.table().filter(step="train", direction="up")
    assert set(up["kind"]) == {"model", "metric", "weight"}


def test_the_adaptive_pull_survives_chunks():
    parties = community_parties()
    whole = train(make("fed-prox", adaptive=True, epochs=2), parties)
    single = train(make("fed-prox", adaptive=True, epochs=2), parties, chunk=1)
    torch.testing.assert_close(whole.server["prox/loss"], single.server["prox/loss"])


def test_the_loss_that_moves_mu_has_no_dropout():
    """With a learning rate of nearly nothing it is the same every round, so mu stays."""
    still = make("fed-prox", adaptive=True, optimizer=SGD(lr=1e-300), model=GCN(hidden=8))
    outcome = train(still, community_parties(), rounds=6)
    assert outcome.server["prox/mu"].item() == 1.0


def test_a_negative_pull_is_refused():
    with pytest.raises(AtollError, match=r"method\.mu is -1"):
        FedProx(mu=-1.0)
