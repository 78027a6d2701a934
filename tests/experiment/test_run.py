"""Runs, their directories, and resuming them."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import tomllib

import polars
import pytest
from safetensors.torch import load_file
from support import BRIEF

import atoll
from atoll.errors import AtollError, Interrupted
from atoll.experiment import runner
from atoll.experiment.config import resolve
from atoll.experiment.runner import load_parties, resume, run_experiment
from atoll.methods.base import methods
from atoll.methods.fed_avg import FedAvg
from atoll.models.sgc import SGC
from atoll.partition.random import Random

SMALL = {
    "method": {"name": "fed-avg"},
    "data": {"name": "patients"},
    "partition": {"name": "random", "clients": 4},
    "model": {"hidden": 8},
    "run": {"rounds": 6},
}


def small(**sections):
    return resolve(SMALL | sections)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_python_in_a_few_lines(tmp_path):
    result = atoll.run(
        method="fed-avg", data="patients", partition="random", clients=4, rounds=20, seed=1,
        settings={"model.hidden": 8}, out=tmp_path / "run",
    )  # fmt: skip
    assert 0.5 < result.test_accuracy <= 1
    assert result.history.shape == (80, 26)
    assert result.history["round"].unique().to_list() == list(range(1, 21))
    assert len(result.per_client) == result.clients == 4
    assert result.experiment.method == FedAvg(model=result.experiment.method.model)


def test_objects_in_place_of_names(tmp_path):
    result = atoll.run(
        method=FedAvg(model=SGC(), fraction=0.5), data="patients", partition=Random(clients=3),
        rounds=2, out=tmp_path / "run",
    )  # fmt: skip
    assert result.summary()["model"] == "sgc"
    assert result.clients == 3
    with pytest.raises(TypeError, match="has its own task"):
        atoll.run(method=FedAvg(), model="gcn", data="patients", rounds=1)


def test_a_run_directory_holds_everything(tmp_path):
    run_dir = tmp_path / "run"
    result = run_experiment(small(), run_dir)
    assert sorted(p.name for p in run_dir.iterdir() if p.is_file()) == [
        "best.safetensors", "clients.json", "config.toml", "confusion.parquet", "environment.toml",
        "history.parquet", "ledger.parquet", "over_all.parquet", "parameters.safetensors",
        "precision_recall.parquet", "rounds.parquet", "summary.json",
    ]  # fmt: skip
    config = tomllib.loads((run_dir / "config.toml").read_text())
    assert resolve(config) == small()
    environment = tomllib.loads((run_dir / "environment.toml").read_text())
    assert {"python", "torch", "atoll", "seed", "threads"} <= set(environment)
    assert os.uname().nodename not in (run_dir / "environment.toml").read_text()
    parameters = load_file(run_dir / "parameters.safetensors")
    assert parameters["server/model/conv1.weight"].shape == (30, 8)
    assert parameters["clients/model/conv1.weight"].shape == (4, 30, 8)
    assert polars.read_parquet(run_dir / "history.parquet").equals(result.history)
    summary = json.loads((run_dir / "summary.json").read_text())
    assert summary == json.loads(json.dumps(result.summary()))
    ledger = polars.read_parquet(run_dir / "ledger.parquet").filter(step="train")
    for way in ("up", "down"):
        assert ledger.filter(direction=way)["bytes"].sum() == summary[f"bytes_{way}"]


def test_bytes_are_those_of_the_models_sent(tmp_path):
    result = run_experiment(small(), tmp_path / "run")
    numbers = 30 * 8 + 8 + 8 * 8 + 8 + 8 * 2 + 2
    assert result.bytes_down == 6 * 4 * 4 * numbers
    assert result.bytes_up == 6 * 4 * (4 * numbers + 8)
    alone = run_experiment(small(method={"name": "local"}), tmp_path / "alone")
    assert (alone.bytes_up, alone.bytes_down) == (0, 0)


def test_a_run_can_do_without_the_ledgers_table(tmp_path):
    result = run_experiment(small(), tmp_path / "run", ledger=False)
    assert not (tmp_path / "run" / "ledger.parquet").exists()
    assert result.bytes_up > 0


def test_centralized_sees_the_whole_graph(tmp_path):
    experiment = small(method={"name": "centralized"})
    [whole] = load_parties(experiment).graphs
    assert whole.nodes == 569
    assert len(run_experiment(experiment, tmp_path / "run").per_client) == 1


class StopAfter:
    """Presses Ctrl-C after a round, as a user would."""

    def __init__(self, round):
        self.round = round

    def __call__(self, round, val):
        if round == self.round:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("stop", [1, 4])
def test_scores_now_and_then_are_those_of_every_round(stop, tmp_path):
    every = run_experiment(small(), tmp_path / "every")
    seldom = small(run={"rounds": 6, "score_every": 4})
    # Once before there are any scores, once after the first.
    with pytest.raises(Interrupted):
        run_experiment(seldom, tmp_path / "seldom", StopAfter(stop))
    result = resume(tmp_path / "seldom")
    scored = polars.col("round").is_in([4, 6])
    assert result.history.equals(every.history.filter(scored))
    assert result.best_round in (4, 6)
    assert result.figures["rounds"] == 6
    with pytest.raises(AtollError, match=r"run\.score_every is 0"):
        small(run={"score_every": 0})


@pytest.mark.parametrize("name", sorted(methods))
@pytest.mark.parametrize("stop", [1, 4])
def test_resume_law(name, stop, tmp_path):
    """Stop after any round, resume: the same final bytes as the uninterrupted run."""
    experiment = small(method={"name": name} | BRIEF.get(name, {}))
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    expected = run_experiment(experiment, whole)
    stop = min(stop, expected.figures["rounds"])  # a method may have finished before
    with pytest.raises(Interrupted, match=f"after round {stop}; .*atoll resume"):
        run_experiment(experiment, cut, StopAfter(stop))
    assert not (cut / "summary.json").exists()
    result = resume(cut)
    for file in ("parameters.safetensors", "best.safetensors", "history.parquet"):
        assert digest(cut / file) == digest(whole / file), file
    ledgers = [polars.read_parquet(folder / "ledger.parquet") for folder in (cut, whole)]
    assert ledgers[0].equals(ledgers[1])
    for key in ("test_accuracy", "best_round", "bytes_up", "bytes_down", "per_client"):
        assert result.summary()[key] == expected.summary()[key]
    assert not list((cut / "checkpoints").iterdir())


def test_a_run_ends_when_its_method_has_finished(tmp_path):
    """In its second round every client's loss is within such a distance of the first one's."""
    at_once = {"name": "no-augment", "link_weight": 0.0, "task_alpha": 1e9}
    result = run_experiment(small(method=at_once), tmp_path / "run")
    assert result.figures["rounds"] == result.figures["trained_rounds"] == 2
    assert result.history["round"].unique().to_list() == [1, 2]


def test_resuming_a_finished_run_reads_it_back(tmp_path):
    expected = run_experiment(small(), tmp_path / "run")
    before = digest(tmp_path / "run" / "parameters.safetensors")
    result = resume(tmp_path / "run")
    assert result.summary() == expected.summary()
    assert result.history.equals(expected.history)
    assert digest(tmp_path / "run" / "parameters.safetensors") == before


def test_resuming_without_a_checkpoint_starts_over(tmp_path):
    expected = run_experiment(small(), tmp_path / "whole")
    begun = tmp_path / "begun"
    begun.mkdir()
    (begun / "config.toml").write_bytes((tmp_path / "whole" / "config.toml").read_bytes())
    assert resume(begun).test_accuracy == expected.test_accuracy


def interrupted_run(tmp_path, monkeypatch):
    """A run with two checkpoints: one for every round, stopped after the fourth."""
    monkeypatch.setattr(runner.time, "monotonic", iter(range(0, 10**6, 100)).__next__)
    with pytest.raises(Interrupted):
        run_experiment(small(), tmp_path / "cut", StopAfter(4))
    monkeypatch.undo()
    checkpoints = sorted((tmp_path / "cut" / "checkpoints").iterdir())
    assert [p.name for p in checkpoints] == ["round-000003.safetensors", "round-000004.safetensors"]
    return tmp_path / "cut", checkpoints


@pytest.mark.parametrize("damage", ["cut short", "altered", "emptied"])
def test_a_torn_checkpoint_is_noticed_and_the_one_before_used(
    damage, tmp_path, monkeypatch, caplog
):
    cut, (_, last) = interrupted_run(tmp_path, monkeypatch)
    content = bytearray(last.read_bytes())
    if damage == "altered":
        content[-5] ^= 1
    last.write_bytes({"cut short": content[:-9], "altered": content, "emptied": b""}[damage])
    resume(cut)
    assert "round-000004.safetensors is damaged" in caplog.text
    whole = tmp_path / "whole"
    run_experiment(small(), whole)
    assert digest(cut / "parameters.safetensors") == digest(whole / "parameters.safetensors")


def test_damaged_run_directories_are_one_sentence(tmp_path, monkeypatch):
    cut, checkpoints = interrupted_run(tmp_path, monkeypatch)
    for path in checkpoints:
        path.write_bytes(b"nonsense")
    with pytest.raises(AtollError, match=r"damaged: .*round-000003\.safetensors"):
        resume(cut)


@pytest.mark.parametrize("file", ["history.parquet", "rounds.parquet", "over_all.parquet"])
@pytest.mark.parametrize("content", [None, b"", b"nonsense"])
def test_lost_tables_are_made_anew_from_the_checkpoint(file, content, tmp_path, monkeypatch):
    cut, _ = interrupted_run(tmp_path, monkeypatch)
    before = polars.read_parquet(cut / file)
    (cut / file).unlink() if content is None else (cut / file).write_bytes(content)
    resume(cut)
    after = polars.read_parquet(cut / file)
    assert after.filter(polars.col("round") <= 4).equals(before)


@pytest.mark.parametrize("content", [None, b"", b"nonsense"])
def test_a_lost_ledger_does_not_lose_the_run(content, tmp_path, monkeypatch, caplog):
    cut, _ = interrupted_run(tmp_path, monkeypatch)
    file = cut / "ledger.parquet"
    file.unlink() if content is None else file.write_bytes(content)
    resume(cut)
    assert "its ledger begins with round 5" in caplog.text
    assert polars.read_parquet(file)["round"].min() == 5
    assert (cut / "damaged-ledger.parquet").exists() == (content is not None)
    run_experiment(small(), tmp_path / "whole")
    assert digest(cut / "parameters.safetensors") == digest(
        tmp_path / "whole" / "parameters.safetensors"
    )


def test_what_is_no_run_directory_is_named(tmp_path):
    with pytest.raises(AtollError, match=r"no config\.toml"):
        resume(tmp_path)


def test_a_used_directory_is_not_overwritten(tmp_path):
    (tmp_path / "precious").write_text("x")
    with pytest.raises(AtollError, match="not empty"):
        run_experiment(small(), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["precious"]


@pytest.mark.parametrize(
    ("sections", "sentence"),
    [
        (
            {"partition": {"name": "random", "clients": 1000}},
            "569 nodes and can't be cut into 1000",
        ),
        ({"partition": {"name": "metis", "clients": 600}}, "569 nodes and can't be cut into 600"),
        (
            {"partition": {"name": "random", "clients": 100}, "split": {"train": 0.01}},
            "no training node; use fewer clients",
        ),
        ({"partition": {"name": "natural"}}, "does not know who owns"),
        ({"data": {"name": "patients", "neighbours": 0}}, "data.neighbours is 0"),
    ],
)
def test_impossible_federations_are_one_sentence_and_leave_nothing(sections, sentence, in_tmp):
    with pytest.raises(AtollError) as problem:
        run_experiment(small(**sections))
    assert sentence in str(problem.value)
    assert list(in_tmp.iterdir()) == []


def test_a_round_without_usable_replies_changes_nothing(tmp_path, caplog):
    class Broken(FedAvg):
        registered_name = "broken"

        def round(self, fed, state, r):
            if r == 2:
                fed.sum("train", shared=state, expect={})
            return super().round(fed, state, r)

    experiment = small()
    broken = type(experiment)(
        data=experiment.data, partition=experiment.partition, split=experiment.split,
        run=experiment.run, method=Broken(model=experiment.method.model),
    )  # fmt: skip
    result = run_experiment(broken, tmp_path / "run")
    assert "round 2 changes nothing" in caplog.text
    assert result.rejected_replies == 4


def test_ctrl_c_in_a_real_process_and_resume_from_the_command_line(tmp_path):
    """The whole story as a user lives it: interrupt, read the advice, resume."""
    arguments = [
        sys.executable, "-m", "atoll", "run", "--data", "patients", "--partition", "random",
        "--clients", "4", "--rounds", "400", "--set", "model.hidden=8", "--set",
        "run.checkpoint_seconds=0.2", "--json", "--out",
    ]  # fmt: skip
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    process = subprocess.Popen([*arguments, str(cut)], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(cut.glob("checkpoints/round-*.safetensors")):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"atoll resume {cut}" in err
    assert "Traceback" not in err
    resumed = subprocess.run(
        [sys.executable, "-m", "atoll", "resume", str(cut), "--json"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    subprocess.run([*arguments, str(whole)], capture_output=True, timeout=120, check=True)
    assert json.loads(resumed.stdout)["rounds"] == 400
    assert digest(cut / "parameters.safetensors") == digest(whole / "parameters.safetensors")
