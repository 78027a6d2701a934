"""SCAFFOLD against Algorithm 1 in plain PyTorch, and where it becomes FedAvg."""

import pytest
from support import assert_same_model, make, train

from atoll.optimizers.sgd import SGD
from atoll.tree import under
from plain_clients import (
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


def algorithm_1(x, who, optimizer, variates, step=1.0, epochs=2):
    """All clients count the same."""
    parties = clients()
    c, c_i = zero(x), [zero(x) for _ in parties]
    optimizers = [PlainOptimizer(optimizer) for _ in parties]
    for S in who:
        ys, changes = [], []
        for i in S:
            away = add(c, c_i[i], -1)
            y, path = descend(
                parties[i], optimizers[i], x, epochs, lambda w, g, away=away: add(g, away)
            )
            if variates == "start":
                new = parties[i].gradient(x)
            elif variates == "path":
                new = path
            else:
                new = add(add(c_i[i], c, -1), add(x, y, -1), 1 / (epochs * optimizers[i].lr))
            ys.append(y)
            changes.append(add(new, c_i[i], -1))
            c_i[i] = new
        x = add(x, add(mean(ys, [1 / len(S)] * len(S)), x, -1), step)
        c = add(c, mean(changes, [1 / len(parties)] * len(S)))
    return x, c


@pytest.mark.parametrize("variates", ["path", "start", "moved"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_it_is_algorithm_1_also_where_some_sit_out(optimizer, variates):
    outcome, start, who = federation(
        "scaffold", 4, optimizer, variates=variates, fraction=0.5, global_step=0.7
    )
    assert {len(S) for S in who} == {2}
    assert len({tuple(S) for S in who}) > 1
    x, c = algorithm_1(start, who, optimizer, variates, step=0.7)
    same(under(outcome.server, "model"), x)
    same(under(outcome.server, "variate"), c)


def test_option_two_is_the_mean_gradient_with_sgd():
    path, moved = (federation("scaffold", variates=v)[0] for v in ("path", "moved"))
    same(under(path.server, "model"), under(moved.server, "model"))
    same(under(path.clients, "variate"), under(moved.clients, "variate"))


def test_with_zero_variates_it_is_fed_avg():
    """The first round, with any optimizer, dropout and number of steps."""
    parties = community_parties()
    plain = train(make("fed-avg", epochs=3, weights="equal"), parties, rounds=1)
    first = train(make("scaffold", epochs=3), parties, rounds=1)
    assert_same_model(plain.server, first.server)
    assert_same_model(plain.clients, first.clients)


def test_with_one_step_of_sgd_it_is_fed_avg():
    """Corrections cancel in the mean."""
    parties = community_parties()
    options = {"optimizer": SGD(lr=0.5), "weights": "equal"}
    plain, corrected = (train(make(n, **options), parties, 4) for n in ("fed-avg", "scaffold"))
    assert_same_model(plain.server, corrected.server)
    assert make("scaffold", **options).remarks({}, None)
    assert not make("scaffold", **options, epochs=2).remarks({}, None)
    more = {"epochs": 2}
    plain, corrected = (
        train(make(n, **options, **more), parties, 4) for n in ("fed-avg", "scaffold")
    )
    with pytest.raises(AssertionError):
        assert_same_model(plain.server, corrected.server)


def test_the_servers_variate_is_the_mean_of_all_clients():
    """Also by other weights, when all take part."""
    outcome, _, _ = federation("scaffold", weights="labelled")
    n = [float(g.train.sum()) for g in PARTIES]
    shares = [m / sum(n) for m in n]
    c_i = under(outcome.clients, "variate")
    expected = mean([{k: p[i] for k, p in c_i.items()} for i in range(len(PARTIES))], shares)
    same(under(outcome.server, "variate"), expected)


def test_moves_of_adam_are_no_gradients_and_a_run_says_so():
    assert "method.variates=path" in make("scaffold", variates="moved").remarks({}, None)[0]
    assert not make("scaffold").remarks({}, None)
