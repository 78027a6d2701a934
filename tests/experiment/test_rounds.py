"""One round, as simulation and deployment complete it."""

import math

import pytest
import torch

from atoll.errors import AtollError, NoReplies
from atoll.experiment.config import resolve
from atoll.experiment.rounds import Rounds
from atoll.experiment.runner import load_parties, simulate
from atoll.methods.fed_avg import FedAvg
from atoll.tree import flat


@pytest.fixture
def rounds(tmp_path):
    experiment = resolve(
        {
            "method": {"name": "fed-avg"},
            "data": {"name": "patients"},
            "partition": {"name": "random", "clients": 3},
            "model": {"hidden": 4},
            "run": {"rounds": 3, "score_every": 2},
        }
    )
    return Rounds(experiment, *simulated(experiment, tmp_path))


def simulated(experiment, run_dir):
    fed, state = simulate(experiment, load_parties(experiment))
    return fed, run_dir, state


def test_rounds_are_scored_in_turn_and_at_the_end(rounds):
    scores = [rounds.complete() for _ in range(3)]
    assert [math.isnan(score) for score in scores] == [True, False, False]
    assert rounds.over
    assert [row["round"] for row in rounds.history.rounds] == [1, 2, 3]
    assert all(row["bytes_up"] > 0 for row in rounds.history.rounds)


def test_a_round_that_an_error_ends_can_be_begun_anew(rounds, monkeypatch):
    """Also where the error comes late, while scores are taken."""
    rounds.complete()
    before = rounds.state

    def fail(*_):
        raise AtollError("too few sites")

    with monkeypatch.context() as broken:
        broken.setattr(FedAvg, "measure", fail)
        with pytest.raises(AtollError, match="too few sites"):
            rounds.complete()
    assert rounds.done == 1
    assert rounds.state is before
    assert len(rounds.history.rounds) == 1
    rounds.complete()
    assert rounds.done == 2


def test_a_round_without_replies_counts_and_changes_nothing(rounds, monkeypatch, caplog):
    def nobody(*_):
        raise NoReplies("no client gave a usable reply.")

    monkeypatch.setattr(FedAvg, "round", nobody)
    before = rounds.state
    rounds.complete()
    assert rounds.done == 1
    assert rounds.state is before
    assert "round 1 changes nothing" in caplog.text


def test_what_was_saved_is_restored(rounds, tmp_path):
    rounds.complete()
    rounds.complete()
    rounds.save(rounds.fed.host.state)
    again = Rounds(rounds.experiment, *simulated(rounds.experiment, tmp_path))
    clients = again.restore()
    assert again.done == 2
    assert set(clients) == set(rounds.fed.host.state)
    assert again.history.table().equals(rounds.history.table())
    before, after = flat(rounds.state), flat(again.state)
    assert set(after) == set(before)
    assert all(torch.equal(after[name], leaf) for name, leaf in before.items())


def test_nothing_saved_is_nothing_restored(rounds):
    assert rounds.restore() is None
    assert rounds.done == 0


def test_a_run_in_which_no_reply_could_be_used_is_no_result(rounds, monkeypatch):
    def round(self, fed, server, r):
        fed.sum("sizes", expect={"size": {}})

    monkeypatch.setattr(FedAvg, "round", round)
    for _ in range(2):
        rounds.complete()
    with pytest.raises(AtollError, match=r"none of the 2 rounds changed anything.*unexpected"):
        rounds.store({}, [], None)


def test_a_round_must_return_a_state(rounds, monkeypatch):
    monkeypatch.setattr(FedAvg, "round", lambda self, fed, server, r: None)
    with pytest.raises(TypeError, match="round of FedAvg must return the server's next state"):
        rounds.complete()
