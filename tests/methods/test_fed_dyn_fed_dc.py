"""FedDyn and FedDC against their papers' equations, and what they have in common."""

import pytest
from support import assert_same_model, make, train

from atoll.tree import under
from plain_clients import PlainOptimizer, add, clients, descend, federation, mean, same, zero
from small_federations import community_parties


def fed_dyn(w, who, optimizer, alpha):
    """Algorithm 1 of Acar et al., with g_i and h as they have them."""
    parties = clients()
    m = len(parties)
    h, g_i = zero(w), [zero(w) for _ in parties]
    for S in who:
        thetas = []
        for i in S:
            start, g_prev = w, g_i[i]

            def correct(theta, g, start=start, g_prev=g_prev):
                return add(add(g, g_prev, -1), add(theta, start, -1), alpha)

            theta, _ = descend(parties[i], PlainOptimizer(optimizer), w, 2, correct)
            g_i[i] = add(g_i[i], add(theta, w, -1), -alpha)
            thetas.append(theta)
        for theta in thetas:
            h = add(h, add(theta, w, -1), -alpha / m)
        w = add(mean(thetas, [1 / len(S)] * len(S)), h, -1 / alpha)
    return w


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_fed_dyn_is_algorithm_1_also_where_some_sit_out(optimizer):
    outcome, start, who = federation("fed-dyn", 4, optimizer, alpha=0.3, fraction=0.5)
    same(under(outcome.server, "model"), fed_dyn(start, who, optimizer, 0.3))


def test_fed_dyn_of_no_alpha_is_fed_avg_with_all_moves_added_up():
    """``w_t = w_(t-1) + D_t + (D_1 + ... + D_t)``; the clients train as FedAvg's do."""
    outcome, w, who = federation("fed-dyn", 3, alpha=1e-12)
    parties, total = clients(), zero(w)
    for S in who:
        thetas = [descend(parties[i], PlainOptimizer("sgd"), w, 2)[0] for i in S]
        move = add(mean(thetas, [1 / len(S)] * len(S)), w, -1)
        total = add(total, move)
        w = add(add(w, move), total)
    same(under(outcome.server, "model"), w)


def fed_dc(w, who, optimizer, alpha, variates):
    """The objective of Gao et al.; the correction of the text, of their code, or of gradients."""
    parties = clients()
    N, K = len(parties), 2
    c, c_i, h = zero(w), [zero(w) for _ in parties], [zero(w) for _ in parties]
    for S in who:
        thetas, changes = [], zero(w)
        for i in S:
            descent = PlainOptimizer(optimizer)
            away, gap = add(c, c_i[i], -1), add(h[i], w, -1)

            def correct(theta, g, away=away, gap=gap):
                return add(add(g, add(theta, gap), alpha), away)

            theta, path = descend(parties[i], descent, w, K, correct)
            update = add(theta, w, -1)
            h[i] = add(h[i], update)
            new = path
            if variates == "update":
                new = add(zero(w), update, -1 / (descent.lr * K))
            if variates == "moved":
                new = add(add(c_i[i], c, -1), update, -1 / (descent.lr * K))
            changes = add(changes, add(new, c_i[i], -1), 1 / N)
            c_i[i] = new
            thetas.append(theta)
        c = add(c, changes)
        w = add(mean(thetas, [1 / len(S)] * len(S)), mean(h, [1 / N] * N))
    return w


@pytest.mark.parametrize("variates", ["path", "update", "moved"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_fed_dc_is_its_objective_also_where_some_sit_out(optimizer, variates):
    options = {"alpha": 0.2, "variates": variates, "fraction": 0.5}
    outcome, start, who = federation("fed-dc", 4, optimizer, **options)
    same(under(outcome.server, "model"), fed_dc(start, who, optimizer, 0.2, variates))


def test_fed_dc_with_all_clients_averages_models_and_drifts():
    """The text's ``w = mean(theta_i + h_i)``, without a penalty on the drift as well."""
    for alpha in (0.0, 0.2):
        outcome, _, _ = federation("fed-dc", alpha=alpha)
        theta, h = under(outcome.clients, "model"), under(outcome.clients, "drift")
        same(under(outcome.server, "model"), {n: (p + h[n]).mean(0) for n, p in theta.items()})


def test_fed_dc_without_correction_is_fed_dyn():
    parties = community_parties()
    options = {"alpha": 0.2, "epochs": 2, "fraction": 0.5}
    one = train(make("fed-dc", variates="none", **options), parties, 4)
    other = train(make("fed-dyn", **options), parties, 4)
    assert_same_model(one.server, other.server)
    assert_same_model(one.clients, other.clients)


def test_fed_dc_of_no_penalty_and_no_correction_trains_clients_as_fed_avg_does():
    parties = community_parties()
    free = make("fed-dc", alpha=0.0, variates="none", epochs=3)
    plain = make("fed-avg", weights="equal", epochs=3, keep_optimizer=False)
    assert_same_model(train(free, parties, 1).clients, train(plain, parties, 1).clients)


def test_moves_of_adam_are_no_gradients_and_a_run_says_so():
    for variates in ("update", "moved"):
        assert "adam" in make("fed-dc", variates=variates).remarks({}, None)[0]
    assert not make("fed-dc").remarks({}, None)
