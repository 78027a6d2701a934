"""FedNova against its update in plain PyTorch, and where it becomes FedAvg."""

import pytest
import torch
from support import assert_same_model, make, train

from atoll.errors import AtollError
from atoll.optimizers.sgd import SGD
from atoll.tree import under
from plain_clients import (
    MODEL,
    PARTIES,
    PlainOptimizer,
    add,
    clients,
    descend,
    federation,
    mean,
    same,
    zero,
)
from small_federations import community_parties


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_steps_by_size_also_where_some_sit_out(optimizer):
    """2 epochs in batches of 2: as many steps as there are labelled nodes."""
    outcome, x, who = federation(
        "fed-nova", 3, optimizer, local_epochs="size", batch=2, fraction=0.5
    )
    parties = clients()
    optimizers = [PlainOptimizer(optimizer) for _ in parties]
    assert len({c.n for c in parties}) > 1
    for S in who:
        tau = [int(parties[i].n) for i in S]
        p = [parties[i].n / sum(parties[j].n for j in S) for i in S]
        d = []
        for i, steps in zip(S, tau, strict=True):
            x_i, _ = descend(parties[i], optimizers[i], x, steps)
            d.append(add(zero(x), add(x_i, x, -1), 1 / steps))
        tau_eff = sum(share * steps for share, steps in zip(p, tau, strict=True))
        x = add(x, mean(d, p), tau_eff)
    same(under(outcome.server, "model"), x)


def test_momentum_counts_by_what_it_makes_of_a_gradient():
    """With fresh momentum 0.5, three steps have 1 + 1.5 + 1.75 of a gradient in all."""
    method = make("fed-nova", optimizer=SGD(lr=0.1, momentum=0.5), keep_optimizer=False, epochs=3)
    assert method.norm(torch.tensor([1, 2, 3])).tolist() == pytest.approx([1.0, 2.5, 4.25])
    with pytest.raises(AtollError, match=r"method\.keep_optimizer=false"):
        make("fed-nova", optimizer=SGD(lr=0.1, momentum=0.5))


@pytest.mark.parametrize("options", [{"local_epochs": "same", "epochs": 3}, {"epochs": 1}])
def test_with_equal_steps_it_is_fed_avg_and_says_so(options):
    method = make("fed-nova", model=MODEL, **options)
    plain = make("fed-avg", model=MODEL, epochs=options["epochs"])
    parties = community_parties()
    assert_same_model(train(plain, parties).server, train(method, parties).server)
    assert "FedAvg" in method.remarks({}, None)[0]


def test_drawn_steps_differ_between_clients_and_rounds_and_stay_within_bounds():
    method = make("fed-nova", epochs=4)
    assert not method.remarks({}, None)
    outcome = train(method, community_parties(), rounds=3)
    steps = outcome.clients["optimizer/steps"]
    assert len(set(steps.tolist())) > 1
    assert (steps >= 3).all()
    assert (steps <= 12).all()


def test_a_client_of_many_steps_does_not_dominate():
    """Two clients of one size, one with 10 steps and one with 1: the direction is their mean."""
    parties = PARTIES[:1] * 2
    method = make("fed-nova", model=MODEL, optimizer=SGD(lr=1e-4), epochs=10)
    ten_and_one = torch.tensor([10, 1])
    object.__setattr__(method, "steps", lambda client: ten_and_one[list(client.cohort.clients)])
    x = under(train(method, parties, rounds=0).server, "model")
    after = under(train(method, parties, rounds=1).server, "model")
    g = clients()[0].gradient(x)
    # The last layer's gradient has no kinks nearby.
    for n in ("classifier.weight", "classifier.bias"):
        torch.testing.assert_close((x[n] - after[n]) / 5.5, 1e-4 * g[n], rtol=1e-2, atol=1e-8)
