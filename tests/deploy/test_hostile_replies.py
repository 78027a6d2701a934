"""Nothing that a site replies stops a run, leaves a mark on the model, or lasts."""

import math

import pytest
import torch

from atoll.deploy import remote
from atoll.errors import AtollError
from atoll.experiment.rounds import Rounds
from atoll.federation.codec import Answer, decode_answer, decode_request
from replies import MUTATIONS, attack, rounds
from small_federations import community_parties
from thread_fleet import again, deployed


@pytest.fixture(scope="module", params=["fed-avg", "fed-pub", "fed-gala", "gfl-appnp"])
def method(request):
    return request.param, rounds(request.param, None, 0)[0]


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_mutated_reply_is_left_out_and_the_model_is_that_of_the_others(method, mutation):
    name, without = method
    assert attack(name, mutation, 0, without)[1] == ""


def _parties():
    return community_parties((19, 25, 14, 31))


def _tampered(coordinator, tamper):
    """One site's answers, changed on their way; the first site is the hostile one."""
    hostile = coordinator.plan.sites[0]
    honest = coordinator.fleet.sites[hostile]

    def fault(site, message):
        if site != hostile:
            return None
        return tamper(decode_request(message), honest.handle(message))

    coordinator.fleet.fault = fault
    return hostile


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"nodes": -1},
        {"nodes": True},
        {"nodes": 10.5},
        {"train": 10**9},
        {"names": "short"},
        {"rarer": 99},
        {"rare": 1},
        {"features": "many"},
        {"classes": 2**60},
    ],
)
def test_a_site_that_misstates_itself_is_left_out_with_the_reason(facts, tmp_path, caplog):
    coordinator = deployed(tmp_path, _parties(), "fed-avg", rounds=1)

    def tamper(request, reply):
        answer = decode_answer(reply)
        if request.ask != "hello":
            return reply
        said = dict(answer.facts) | facts if facts else {}
        return Answer(answer.id, facts=said).encode()

    hostile = _tampered(coordinator, tamper)
    assert coordinator.run() is not None
    assert f"site '{hostile}' is suspended" in caplog.text
    # Neither asked nor billed.
    assert set(coordinator.fed.ledger.table()["client"]) == {1, 2, 3}


@pytest.mark.parametrize("ask", ["hello", "begin"])
def test_a_site_does_not_grow_between_attempts(ask, tmp_path, caplog):
    """What it says when the server was started again would count for more."""
    coordinator = deployed(tmp_path, _parties(), "fed-avg", rounds=4, terms={"quorum": 3})
    coordinator.stopped = lambda: coordinator.rounds.done == 2
    with pytest.raises(AtollError, match="ended after round 2"):
        coordinator.run()
    coordinator = again(coordinator)
    what = {"hello": "train", "begin": "labelled"}[ask]

    def tamper(request, reply):
        answer = decode_answer(reply)
        if request.ask != ask:
            return reply
        return Answer(answer.id, facts=dict(answer.facts) | {what: answer.facts[what] + 1}).encode()

    hostile = _tampered(coordinator, tamper)
    assert coordinator.run() is not None
    assert f"site '{hostile}' is suspended: it says" in caplog.text
    assert f"for {what}, where it said" in caplog.text
    table = coordinator.fed.ledger.table()
    trained = table.filter((table["direction"] == "up") & (table["client"] == 0))
    assert max(trained["round"]) == 2


def test_a_site_counts_for_no_more_than_it_says_it_has(tmp_path, caplog):
    coordinator = deployed(tmp_path, _parties(), "fed-avg", rounds=1)

    def tamper(request, reply):
        answer = decode_answer(reply)
        if request.ask != "step" or "weight" not in answer.tree:
            return reply
        heavy = {"weight": torch.tensor([1e12], dtype=torch.float64)}
        return Answer(answer.id, dict(answer.tree) | heavy).encode()

    _tampered(coordinator, tamper)
    coordinator.run()
    assert "its weight is 1e+12, more than" in caplog.text


@pytest.mark.parametrize("boast", [1e9, 1.5, -2.0])
def test_a_score_beyond_any_score_does_not_choose_the_best_round(boast, tmp_path, caplog):
    coordinator = deployed(tmp_path, _parties(), "fed-avg", rounds=2)

    def tamper(request, reply):
        answer = decode_answer(reply)
        if "body/metric/accuracy" not in answer.tree:
            return reply
        false = {"body/metric/accuracy": answer.tree["body/metric/accuracy"] * 0 + boast}
        return Answer(answer.id, dict(answer.tree) | false).encode()

    _tampered(coordinator, tamper)
    result = coordinator.run()
    assert "'metric/accuracy' has numbers outside -1 to 1" in caplog.text
    assert set(result.history["client"]) == {1, 2, 3}


def test_an_answer_that_breaks_its_own_reading_is_left_out(tmp_path, caplog, monkeypatch):
    coordinator = deployed(tmp_path, _parties(), "fed-avg", rounds=1)
    honest = remote.step_batch

    def broken(client, answer):
        if client == 0:
            raise RuntimeError("what nobody thought of")
        return honest(client, answer)

    monkeypatch.setattr(remote, "step_batch", broken)
    assert coordinator.run() is not None
    assert "it can't be read (RuntimeError)" in caplog.text


def test_a_site_that_keeps_sending_nonsense_is_suspended_and_named(tmp_path, caplog):
    coordinator = deployed(tmp_path, _parties(), "fed-avg", rounds=5)

    def tamper(request, reply):
        return b"nonsense" if request.ask == "step" else reply

    hostile = _tampered(coordinator, tamper)
    coordinator.run()
    assert f"site '{hostile}' is suspended" in caplog.text
    assert list(coordinator.journal.status()["suspended"]) == [hostile]


def test_a_reply_that_is_left_out_is_not_quoted_at_length(tmp_path, caplog):
    """A leaf's name may be as long as a model is large, and hold what a terminal obeys."""
    coordinator = deployed(tmp_path, _parties(), "fed-avg", rounds=3)
    name = "model/" + "\x1b]0;x\u202e" * 60

    def tamper(request, reply):
        answer = decode_answer(reply)
        tree = dict(answer.tree) | {f"body/{name}": torch.zeros(1, 2)}
        return Answer(answer.id, tree).encode() if request.ask == "step" else reply

    hostile = _tampered(coordinator, tamper)
    coordinator.run()
    assert f"site '{hostile}' is suspended" in caplog.text
    shown = (tmp_path / "run" / "status.json").read_text() + caplog.text
    assert "unexpected ['model/" in shown
    assert not set("\x1b\u202e") & set(shown)
    assert max(map(len, shown.splitlines())) < 3000
    assert max(len(r.reason) for r in coordinator.fed.rejections) < 400


def test_the_quorum_counts_good_replies_only(tmp_path):
    coordinator = deployed(
        tmp_path, _parties(), "fed-avg", rounds=2, terms={"quorum": 4, "patience": 2.0}
    )

    def tamper(request, reply):
        answer = decode_answer(reply)
        if request.ask != "step" or "weight" not in answer.tree:
            return reply
        return Answer(answer.id, {"weight": answer.tree["weight"]}).encode()

    _tampered(coordinator, tamper)
    with pytest.raises(AtollError, match="quorum of 4"):
        coordinator.run()


def test_a_model_that_is_not_finite_is_never_kept(tmp_path, caplog, monkeypatch):
    coordinator = deployed(tmp_path, _parties(), "fed-avg", rounds=3)
    method = type(coordinator.method)
    honest = method.averaged

    def spoiled(self, fed, total, clients):
        model = honest(self, fed, total, clients)
        if fed.round == 2:
            model["conv1.bias"] = model["conv1.bias"] * math.inf
        return model

    monkeypatch.setattr(method, "averaged", spoiled)
    saved = []
    keep = Rounds.save

    def save(self, clients):
        saved.append({n: p.clone() for n, p in self.state["model"].items()})
        keep(self, clients)

    monkeypatch.setattr(Rounds, "save", save)
    coordinator.run()
    assert "round 2 changes nothing: 'model/conv1.bias' of the server would not be finite" in (
        caplog.text
    )
    assert all(bool(p.isfinite().all()) for model in saved for p in model.values())
    assert torch.equal(saved[0]["conv1.weight"], saved[1]["conv1.weight"])
    assert not torch.equal(saved[1]["conv1.weight"], saved[2]["conv1.weight"])
