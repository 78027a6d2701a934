"""Runs under noise: epsilon on record, an end at the budget, the same bytes when resumed."""

import hashlib
import json

import numpy as np
import polars
import pytest
from rich.console import Console

from atoll.errors import AtollError, Interrupted
from atoll.experiment import runner
from atoll.experiment.config import resolve
from atoll.experiment.runner import resume, run_experiment
from atoll.privacy.accounting import epsilon_of
from atoll.report.facts import report_facts
from atoll.report.tables import comparison

SMALL = {
    "method": {"name": "fed-avg"},
    "data": {"name": "patients"},
    "partition": {"name": "random", "clients": 4},
    "model": {"hidden": 8},
    "run": {"rounds": 6},
    "privacy": {"noise": 5.0, "clip": 1.0},
}


def small(**sections):
    return resolve(SMALL | sections)


def test_epsilon_is_in_every_row_and_in_the_summary(tmp_path):
    result = run_experiment(small(), tmp_path / "run")
    expected = [epsilon_of(5.0, r, 1e-5) for r in range(1, 7)]
    rounds = polars.read_parquet(tmp_path / "run" / "rounds.parquet")
    assert rounds["epsilon"].to_list() == expected
    history = polars.read_parquet(tmp_path / "run" / "history.parquet")
    assert np.array_equal(history["epsilon"].to_numpy(), np.repeat(expected, 4))
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["figures"]["epsilon"] == expected[-1] == result.figures["epsilon"]
    assert any("method.evaluates=global" in remark for remark in result.remarks)


def test_epsilon_is_in_reports_and_tables(tmp_path):
    results = [run_experiment(small(), tmp_path / "noised")]
    results += [run_experiment(small(privacy={}), tmp_path / "plain")]
    expected = epsilon_of(5.0, 6, 1e-5)
    facts = report_facts([tmp_path / "noised"], with_data=False)
    [method] = [m for group in facts["groups"] for m in group["methods"]]
    assert method["epsilon"] == pytest.approx(expected, abs=1e-3)
    console = Console(width=200, record=True)
    console.print(comparison(results))
    shown = console.export_text()
    assert "epsilon" in shown
    assert f"{expected:.3f}" in shown
    assert "none" in shown


def test_clients_that_sit_rounds_out_spend_less(tmp_path):
    run_experiment(small(method={"name": "fed-avg", "fraction": 0.5}), tmp_path / "run")
    last = polars.read_parquet(tmp_path / "run" / "rounds.parquet").row(-1, named=True)
    assert sum(last["releases"]) == 6 * 2
    assert last["epsilon"] == epsilon_of(5.0, max(last["releases"]), 1e-5)


def test_training_ends_at_the_budget_with_a_sentence(tmp_path):
    budget = epsilon_of(5.0, 3, 1e-5) + 1e-9
    result = run_experiment(
        small(privacy={"noise": 5.0, "clip": 1.0, "epsilon": budget}), tmp_path / "run"
    )
    assert result.figures["rounds"] == 3
    [said] = [remark for remark in result.remarks if "budget" in remark]
    assert "training ended after round 3 of 6 with epsilon 1.446" in said
    assert result.figures["epsilon"] <= budget


def test_a_budget_below_one_release_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(AtollError, match="not a single release"):
        run_experiment(small(privacy={"noise": 1.0, "clip": 1.0, "epsilon": 0.5}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_phase_that_needs_more_than_is_left_ends_training(tmp_path):
    """fed-gala's round with the anchors releases twice; the budget ends within it."""
    pytest.importorskip("private_set_intersection.python", reason="needs openmined.psi")
    sections = SMALL | {
        "method": {"name": "fed-gala", "combined_rounds": 2},
        "partition": {"name": "louvain-anchors", "clients": 3},
        "privacy": {"noise": 5.0, "clip": 1.0, "epsilon": epsilon_of(5.0, 2, 1e-5) + 1e-9},
    }
    result = run_experiment(resolve(sections), tmp_path / "run")
    assert result.figures["rounds"] == 2
    assert any("training ended in round 2: client 0 has spent" in r for r in result.remarks)


def digest(path):
    return hashlib.sha256((path / "parameters.safetensors").read_bytes()).hexdigest()


def test_an_interrupted_run_goes_on_to_the_same_bytes_and_epsilon(tmp_path, monkeypatch):
    whole = run_experiment(small(), tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setattr(runner, "_orderly_interrupt", interrupted_after(3))
        with pytest.raises(Interrupted):
            run_experiment(small(), tmp_path / "parts")
    parts = resume(tmp_path / "parts")
    assert digest(tmp_path / "parts") == digest(tmp_path / "whole")
    assert parts.figures["epsilon"] == whole.figures["epsilon"]
    assert parts.history["epsilon"].to_list() == whole.history["epsilon"].to_list()


def interrupted_after(rounds):
    from contextlib import contextmanager

    @contextmanager
    def interrupt():
        left = iter([False] * (rounds - 1) + [True])
        yield lambda: next(left)

    return interrupt


@pytest.mark.parametrize(
    ("method", "remedy"), [("fed-pub", r"method\.masks=false"), ("fed-gcn", "another method")]
)
def test_a_reply_that_no_noise_hides_is_refused_before_anything_is_written(
    method, remedy, tmp_path
):
    with pytest.raises(AtollError, match=remedy):
        run_experiment(small(method={"name": method}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("method", "kinds"),
    [
        ({"name": "fed-gta"}, 3),  # model, moments and confidence
        ({"name": "ppfl-gat"}, 1),  # vectors of public nodes
        ({"name": "gfl-appnp", "compensation": "none"}, 2),  # hidden representations, model
    ],
)
def test_representations_and_moments_are_noised_in_the_same_place(method, kinds, tmp_path):
    """Two runs that differ in noise alone: what the server keeps differs, and epsilon counts."""
    own = {"gfl-appnp": {"name": "mlp", "hidden": 8, "dropout": 0.0, "bias": False}}
    sections = {
        "method": method,
        "model": own.get(method["name"], SMALL["model"]),
        "partition": {"name": "louvain-anchors", "clients": 3},
        "run": {"rounds": 1},
    }
    privacy = {"noise": 0.5, "clip": 1.0}
    noised = run_experiment(small(**sections, privacy=privacy), tmp_path / "noised")
    clipped = run_experiment(small(**sections, privacy={"clip": 1.0}), tmp_path / "clipped")
    releases = polars.read_parquet(tmp_path / "noised" / "rounds.parquet")["releases"][0].to_list()
    assert min(releases) >= kinds
    changed = {
        name.split("/")[1]
        for name, leaf in noised.parameters.items()
        if name.startswith("server/")
        and hasattr(leaf, "is_floating_point")
        and leaf.is_floating_point()
        and not leaf.equal(clipped.parameters[name])
    }
    assert changed


def test_a_robust_mean_without_anything_to_average_says_so(tmp_path):
    result = run_experiment(
        small(method={"name": "local"}, privacy={"robust": "median"}), tmp_path / "run"
    )
    assert any("had nothing to do" in remark for remark in result.remarks)
