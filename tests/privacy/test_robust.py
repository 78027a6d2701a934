"""Robust means, by hand: five clients on a line, one of them far off."""

import pytest
import torch

from atoll.errors import AtollError, NoReplies
from atoll.experiment.config import resolve
from atoll.experiment.parties import load_parties, simulate
from atoll.experiment.runner import run_experiment
from atoll.federation.validation import Batch
from atoll.privacy.robust import RULES, needed, robustly
from byzantine import Byzantine, flip

EQUAL = torch.full((1, 5), 0.2)
# The last one is hostile.
LINE = {"w": torch.tensor([[1.0], [2.0], [3.0], [4.0], [-100.0]])}


def mean_of(rule, alpha=EQUAL, values=LINE, sent=None, hostile=1):
    return robustly(RULES[rule], alpha, values, sent or {}, hostile)["w"]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("median", 2.0),  # of -100, 1, 2, 3, 4
        ("trimmed-mean", 2.0),  # of 1, 2, 3
        ("krum", 2.0),  # nearest two others at a squared distance of 1 each; so has 3, later
        ("multi-krum", 2.5),  # of 1, 2, 3, 4
        ("norm-clip", 1.2),  # the median norm is 3: of 1, 2, 3, 3 and -3
        ("geometric-median", 2.0),  # on a line, the median
    ],
)
def test_one_hostile_of_five(rule, expected):
    assert float(mean_of(rule)) == pytest.approx(expected, abs=1e-4)


def test_norm_clipping_is_of_updates():
    """All began at 10 and went 1, 1, 1 and 30 on: the last counts as 1."""
    values = {"w": torch.tensor([[11.0], [11.0], [11.0], [40.0]])}
    sent = {"w": torch.full((4, 1), 10.0)}
    assert float(mean_of("norm-clip", torch.full((1, 4), 0.25), values, sent)) == 11.0


@pytest.mark.parametrize("rule", RULES)
def test_equal_values_are_their_own_mean(rule):
    values = {"w": torch.full((5, 2, 3), 0.7)}
    assert torch.allclose(mean_of(rule, values=values), torch.full((1, 2, 3), 0.7))


def test_a_trimmed_mean_is_trimmed_by_count_whatever_the_weights():
    """The hostile client has nearly all of the weight, and is left out all the same."""
    alpha = torch.tensor([[0.01, 0.01, 0.01, 0.01, 0.96]])
    assert float(mean_of("trimmed-mean", alpha)) == pytest.approx(2.0)


def test_rows_keep_to_their_neighbourhoods_and_an_empty_one_is_zero():
    alpha = torch.tensor([[0.5, 0.5, 0, 0, 0], [0, 0, 0.5, 0.5, 0], [0, 0, 0, 0, 0]])
    for rule in ("median", "trimmed-mean", "geometric-median", "multi-krum"):
        assert mean_of(rule, alpha).flatten().tolist() == pytest.approx([1.5, 3.5, 0.0], abs=1e-4)


def test_weights_shift_a_median():
    alpha = torch.tensor([[0.1, 0.1, 0.1, 0.6, 0.1], [0.6, 0.1, 0.1, 0.1, 0.1]])
    assert mean_of("median", alpha).flatten().tolist() == [4.0, 1.0]


def test_how_many_it_takes():
    assert needed("trimmed-mean", 2) == 5
    assert needed("multi-krum", 2) == 7


def experiment(method, robust, hostile=1, clients=6):
    table = {
        "data": {"name": "patients"},
        "partition": {"name": "random", "clients": clients},
        "model": {"hidden": 8},
        "method": {"name": method},
        "run": {"rounds": 3},
        "privacy": {"robust": robust, "hostile": hostile},
    }
    if method == "fed-aux":
        # At its own tau a model turned round is hardly mixed in anyhow.
        table["model"], table["method"]["tau"] = {"name": "aux-gcn", "hidden": 8}, 0.0
    if method == "fed-iih":
        table["model"] = {"name": "disen", "hidden": 8}
    return resolve(table)


def after_a_round(method, robust, hostile=(), strength=10.0):
    chosen = experiment(method, robust)
    fed, state = simulate(chosen, load_parties(chosen))
    attack = Byzantine(fed.host)
    attack.averaging, attack.hostile = fed.averaging, frozenset(hostile)
    attack.attack = flip(strength)
    attack.begin(1)
    first = state["model"]
    return first, chosen.method.round(attack, state, 1)["model"], attack


def distance(a, b):
    """Of the honest clients' models, or of the global one."""
    if next(iter(a.values())).dim() > 2:  # one row per client
        a, b = ({n: v[:5] for n, v in tree.items()} for tree in (a, b))
    return float(sum((a[n] - b[n]).square().sum() for n in a) ** 0.5)


@pytest.mark.parametrize("robust", ["median", "trimmed-mean", "multi-krum", "geometric-median"])
@pytest.mark.parametrize("method", ["fed-avg", "fed-pub", "fed-aux", "fed-iih", "fed-gta", "gcfl"])
def test_a_hostile_client_moves_the_plain_mean_and_not_the_robust_one(method, robust):
    """Strength 1000: the plain mean follows it anywhere."""
    for rule, moves in (("none", True), (robust, False)):
        first, honest, _ = after_a_round(method, rule)
        _, attacked, _ = after_a_round(method, rule, {5}, 1000.0)
        step = distance(first, honest)
        assert (distance(honest, attacked) > 20 * step) is moves


def test_the_ledger_says_that_single_replies_were_seen():
    _, _, plain = after_a_round("fed-avg", "none")
    _, _, robust = after_a_round("fed-avg", "median")
    assert {e.verb for e in plain.ledger.entries if e.direction == "up"} == {"sum"}
    assert {e.verb for e in robust.ledger.entries if e.direction == "up"} == {"ask"}


def test_too_few_clients_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(AtollError, match="takes 5 clients"):
        run_experiment(experiment("fed-avg", "median", hostile=2, clients=4), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_round_with_too_few_replies_changes_nothing():
    chosen = experiment("fed-avg", "krum", hostile=1, clients=5)
    fed, state = simulate(chosen, load_parties(chosen))
    whole = fed.deliver

    def two_are_silent(call, to, each):
        for batch in whole(call, to, each):
            body = {n: leaf[:3] for n, leaf in batch.body.items()}
            yield Batch(batch.clients[:3], body, batch.weight[:3])

    fed.deliver = two_are_silent
    fed.begin(1)
    with pytest.raises(NoReplies, match="3 replies to 'train' are too few for krum"):
        chosen.method.round(fed, state, 1)


def test_clients_that_were_not_asked_do_not_count():
    """With half the clients per round, updates are still held against what was sent."""
    chosen = resolve({
        "data": {"name": "patients"}, "partition": {"name": "random", "clients": 6},
        "model": {"hidden": 8}, "method": {"name": "fed-avg", "fraction": 0.5},
        "run": {"rounds": 3}, "privacy": {"robust": "norm-clip"},
    })  # fmt: skip
    fed, state = simulate(chosen, load_parties(chosen))
    fed.begin(1)
    after = chosen.method.round(fed, state, 1)
    assert distance(state["model"], after["model"]) > 0
