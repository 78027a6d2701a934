"""Very many clients: states are made when they are needed, kept in files, and change nothing."""

import math

import pytest
import torch

from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.experiment.runner import load_parties, resume, run_experiment, simulate
from atoll.federation.states import HOLDERS, Shelf, states_of
from atoll.tree import under


@pytest.fixture
def at_most_three_at_once(monkeypatch):
    monkeypatch.setattr("atoll.federation.host.AT_ONCE", 3)
    monkeypatch.setattr("atoll.federation.host.CHUNK", 3)


def experiment(rounds=4, score_every=1, **method):
    return resolve(
        {
            "data": {"name": "communities", "nodes": 240, "communities": 8, "features": 6,
                     "classes": 3, "degree": 4.0},
            "partition": {"name": "natural"},
            "model": {"hidden": 4},
            "method": {"name": "fed-avg", "fraction": 0.25, **method},
            "run": {"rounds": rounds, "dtype": "float64", "score_every": score_every},
        }
    )  # fmt: skip


def test_so_many_clients_give_the_scores_of_few(tmp_path, monkeypatch):
    few = run_experiment(experiment(), tmp_path / "few")
    monkeypatch.setattr("atoll.federation.host.AT_ONCE", 3)
    monkeypatch.setattr("atoll.federation.host.CHUNK", 3)
    many = run_experiment(experiment(), tmp_path / "many")
    for name, value in few.figures.items():
        assert math.isclose(many.figures[name], value, rel_tol=1e-9, abs_tol=1e-12) or (
            math.isnan(value) and math.isnan(many.figures[name])
        ), name


def test_only_those_who_took_part_have_a_state(at_most_three_at_once):
    chosen = experiment()
    fed, state = simulate(chosen, load_parties(chosen))
    assert isinstance(fed.host.states, Shelf)
    chosen.method.measure(fed, state)
    assert fed.host.state[HOLDERS].tolist() == []
    fed.begin(1)
    state = chosen.method.round(fed, state, 1)
    took_part = {e.clients for e in fed.ledger.entries if e.step == "train"}.pop()
    saved = fed.host.state
    assert tuple(saved[HOLDERS].tolist()) == took_part
    assert len(saved["model/conv1.weight"]) == len(took_part) == 2
    chosen.method.measure(fed, state)
    assert tuple(fed.host.state[HOLDERS].tolist()) == took_part
    whole = under(fed.host.states.whole(), "model")["conv1.weight"]
    assert len(whole) == 8
    assert torch.equal(whole[list(took_part)], saved["model/conv1.weight"])
    others = [i for i in range(8) if i not in took_part]
    first = chosen.method.initial_model(fed.host.cohort, 0)["conv1.weight"]
    assert all(torch.equal(whole[i], first) for i in others)


def test_resuming_gives_the_same_bytes(tmp_path, at_most_three_at_once):
    from atoll.errors import Interrupted

    whole = run_experiment(experiment(), tmp_path / "whole")
    seen = []

    def stop(done, _):
        import os
        import signal

        seen.append(done)
        if done == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted):
        run_experiment(experiment(), tmp_path / "cut", progress=stop)
    assert seen == [1, 2]
    resumed = resume(tmp_path / "cut")
    one, other = (r.run_dir / "parameters.safetensors" for r in (whole, resumed))
    assert one.read_bytes() == other.read_bytes()
    assert one.parent.joinpath("best.safetensors").read_bytes() == (
        other.parent.joinpath("best.safetensors").read_bytes()
    )


def test_rows_in_files_are_those_that_were_put():
    def join(part):
        return {"w": torch.tensor([[float(p)] * 2 for p in part])}

    states = states_of(6, join, 4)
    assert isinstance(states, Shelf)
    taken = states.take((1, 4))
    states.put((1, 4), {"w": taken["w"] + 10})
    assert states.take((0, 1, 4, 5))["w"][:, 0].tolist() == [0, 11, 14, 5]
    states.put((0, 1), {"w": states.take((0, 1))["w"].mul_(2)})
    assert states.whole()["w"][:, 1].tolist() == [0, 22, 2, 3, 14, 5]
    again = states_of(6, join, 4)
    again.restore(states.saved())
    assert again.whole()["w"].tolist() == states.whole()["w"].tolist()


def test_only_what_is_wanted_is_read():
    states = states_of(6, lambda part: {n: torch.zeros(len(part), 2) for n in ("w", "v")}, 4)
    states.put((1, 4), {n: torch.ones(2, 2) for n in ("w", "v")})
    wanted = states.saved(lambda name: name == "w")
    assert sorted(wanted) == [HOLDERS, "w"]
    assert wanted[HOLDERS].tolist() == [1, 4]
    few = states_of(2, lambda part: {n: torch.zeros(len(part)) for n in ("w", "v")}, 4)
    assert sorted(few.saved(lambda name: name == "v")) == ["v"]


def test_too_small_a_disk_is_one_sentence(monkeypatch):
    monkeypatch.setattr(
        "atoll.federation.states.shutil.disk_usage", lambda _: type("u", (), {"free": 3})
    )
    states = states_of(6, lambda part: {"w": torch.zeros(len(part), 2)}, 4)
    with pytest.raises(AtollError, match="set TMPDIR"):
        states.put((0,), {"w": torch.ones(1, 2)})


def test_engines_that_lend_states_have_everybody_s(at_most_three_at_once):
    chosen = experiment()
    fed, _ = simulate(chosen, load_parties(chosen))
    fed.host.hold_all()
    saved = fed.host.state
    assert HOLDERS not in saved
    assert {len(leaf) for leaf in saved.values()} == {8}
