"""Ditto against Algorithm 1 in plain PyTorch, and its two ends."""

import pytest
import torch
from support import assert_same_model, make, train

from atoll.tree import under
from plain_clients import PlainOptimizer, add, clients, descend, federation, mean, same
from small_federations import community_parties


def algorithm_1(w, who, optimizer, pull):
    parties = clients()
    v = [w for _ in parties]
    of_v, of_w = ([PlainOptimizer(optimizer) for _ in parties] for _ in range(2))
    for S in who:
        trained = []
        for i in S:

            def correct(x, g, w=w):
                return add(g, add(x, w, -1), pull)

            v[i], _ = descend(parties[i], of_v[i], v[i], 2, correct)
            trained.append(descend(parties[i], of_w[i], w, 2)[0])
        n = [parties[i].n for i in S]
        w = mean(trained, [m / sum(n) for m in n])
    return w, v


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_it_is_algorithm_1_also_where_some_sit_out(optimizer):
    outcome, start, who = federation("ditto", 3, optimizer, pull=0.4, fraction=0.5)
    w, v = algorithm_1(start, who, optimizer, 0.4)
    # Adam turns the rounding of weights that are pulled but never trained into more of it.
    tolerance = 1e-10 if optimizer == "sgd" else 1e-7
    same(under(outcome.server, "model"), w)
    own = under(outcome.clients, "model")
    for i, expected in enumerate(v):
        same({n: p[i] for n, p in own.items()}, expected, tolerance)


def test_without_a_pull_it_is_local_training():
    """With dropout as well: the personal model's randomness is that of training alone."""
    parties = community_parties()
    alone = train(make("local", epochs=3), parties)
    personal = train(make("ditto", epochs=3, pull=0.0), parties)
    assert_same_model(alone.clients, personal.clients)


def test_the_global_model_is_fed_avgs_whatever_the_pull():
    plain, _, _ = federation("fed-avg", optimizer="adam")
    for pull in (0.0, 5.0):
        pulled, _, _ = federation("ditto", optimizer="adam", pull=pull)
        assert_same_model(plain.server, pulled.server)


def test_a_stronger_pull_brings_personal_models_nearer_to_the_global_one():
    def gap(pull):
        outcome, _, _ = federation("ditto", rounds=10, pull=pull)
        own, shared = (under(t, "model") for t in (outcome.clients, outcome.server))
        return sum((p - shared[n]).square().sum() for n, p in own.items())

    assert gap(1.0) < gap(0.1) < gap(0.0)


def test_the_personal_model_is_scored_and_never_sent():
    parties = community_parties()
    personal = train(make("ditto", epochs=2), parties)
    shared = train(make("ditto", epochs=2, evaluates="global"), parties)
    assert not torch.equal(personal.replies.body["metric/loss"], shared.replies.body["metric/loss"])
    up = personal.fed.ledger.table().filter(step="train", direction="up")
    assert set(up["kind"]) == {"model", "weight"}
