"""MOON against its loss in plain PyTorch, and where it becomes FedAvg."""

import math

import pytest
import torch
from support import assert_same_model, make, train

from atoll.errors import AtollError
from atoll.models.sgc import SGC
from atoll.tasks.links import LinkPrediction
from atoll.tree import under
from plain_clients import PlainOptimizer, clients, descend, federation, mean, same
from small_federations import community_parties


def plain_moon(w, who, optimizer, mu, tau, nodes):
    parties = clients()
    last = [w for _ in parties]
    optimizers = [PlainOptimizer(optimizer) for _ in parties]
    for S in who:
        trained = []
        for i in S:
            client = parties[i]
            rows = client.train if nodes == "train" else torch.ones_like(client.train)
            z_glob, z_prev = client.z(w)[rows], client.z(last[i])[rows]

            def objective(v, client=client, rows=rows, z_glob=z_glob, z_prev=z_prev):
                z = client.z(v)[rows]

                def e(other):
                    # A node without words is at the origin before the first round.
                    lengths = (v.norm(dim=1).clamp(min=1e-8) for v in (z, other))
                    return ((z * other).sum(1) / math.prod(lengths) / tau).exp()

                away = -(e(z_glob) / (e(z_glob) + e(z_prev))).log()
                return client.loss(v) + mu * away.mean()

            last[i], _ = descend(client, optimizers[i], w, 2, objective=objective)
            trained.append(last[i])
        n = [parties[i].n for i in S]
        w = mean(trained, [m / sum(n) for m in n])
    return w


@pytest.mark.parametrize("nodes", ["all", "train"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_it_is_the_papers_loss_also_where_some_sit_out(optimizer, nodes):
    outcome, start, who = federation(
        "moon", 4, optimizer, mu=2.0, tau=0.3, nodes=nodes, fraction=0.5
    )
    expected = plain_moon(start, who, optimizer, 2.0, 0.3, nodes)
    # Adam magnifies how processors round: by 1e-10 between two of them.
    same(under(outcome.server, "model"), expected, tolerance=1e-9)


def test_without_weight_it_is_fed_avg_and_says_so():
    parties = community_parties()
    plain, free = (make("fed-avg", epochs=3), make("moon", epochs=3, mu=0.0))
    assert_same_model(train(plain, parties).server, train(free, parties).server)
    assert free.remarks({}, None)
    assert not make("moon").remarks({}, None)


def test_the_first_round_is_fed_avg():
    """The last model is the global one: both similarities are the same."""
    parties = community_parties()
    first = train(make("moon", mu=10.0), parties, rounds=1)
    assert_same_model(train(make("fed-avg"), parties, rounds=1).server, first.server)


def test_links_and_models_without_a_hidden_layer():
    with pytest.raises(AtollError, match=r"method\.nodes=all"):
        make("moon", task=LinkPrediction(), nodes="train")
    outcome = train(make("moon", model=SGC()), community_parties())
    assert outcome.replies.body["metric/loss"].isfinite().all()
