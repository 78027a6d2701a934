"""Callbacks and loggers: what they are told, and that they can't lose a run."""

import signal
import subprocess
import sys

import polars
import pytest
import torch

import atoll
from atoll.errors import AtollError, Interrupted
from atoll.loggers.base import callbacks_of, loggers

SMALL = {
    "method": "fed-avg",
    "data": "patients",
    "partition": "random",
    "clients": 3,
    "rounds": 4,
    "settings": {"model.hidden": 4},
}


class Notes(atoll.Callback):
    def __init__(self, stop=0):
        self.calls, self.rounds, self.stop = [], [], stop

    def start(self, experiment, run_dir):
        self.calls.append(("start", experiment.method.registered_name, run_dir.is_dir()))

    def round(self, told):
        self.rounds.append(told)
        if told.round == self.stop:
            signal.raise_signal(signal.SIGINT)

    def end(self, result):
        self.calls.append(("end", result))


def test_a_callback_is_told_what_the_history_holds(tmp_path):
    notes = Notes()
    result = atoll.run(**SMALL, callbacks=[notes], out=tmp_path / "r")
    assert notes.calls == [("start", "fed-avg", True), ("end", result)]
    assert [told.round for told in notes.rounds] == [1, 2, 3, 4]
    for told in notes.rounds:
        rows = result.history.filter(polars.col("round") == told.round).to_dicts()
        assert set(told.clients) == {0, 1, 2}
        for row in rows:
            assert told.clients[row["client"]]["val_accuracy"] == row["val_accuracy"]
        assert told.means["test_loss"] == pytest.approx(sum(r["test_loss"] for r in rows) / 3)
    assert sum(told.bytes_up for told in notes.rounds) == result.bytes_up


def test_a_round_without_scores_has_none(tmp_path):
    notes = Notes()
    settings = SMALL["settings"] | {"run.score_every": 2}
    atoll.run(**SMALL | {"settings": settings}, callbacks=[notes], out=tmp_path / "r")
    assert [bool(told.means) for told in notes.rounds] == [False, True, False, True]
    assert notes.rounds[0].clients == {}
    assert notes.rounds[0].bytes_up > 0


@pytest.mark.parametrize("where", ["start", "round", "end"])
def test_an_error_of_a_callback_does_not_lose_the_run(where, tmp_path, caplog):
    class Broken(atoll.Callback):
        pass

    def fail(*_):
        raise RuntimeError("no such server")

    setattr(Broken, where, fail)
    notes = Notes()
    plain = atoll.run(**SMALL, out=tmp_path / "plain")
    result = atoll.run(**SMALL, callbacks=[Broken(), notes], out=tmp_path / "r")
    assert result.test_accuracy == plain.test_accuracy
    assert (tmp_path / "r" / "summary.json").is_file()
    assert len(notes.rounds) == 4
    said = [r.message for r in caplog.records if "Broken failed" in r.message]
    assert len(said) == 1
    assert "(RuntimeError: no such server); the run goes on without it." in said[0]


def test_an_interrupted_run_ends_without_a_result_and_goes_on(tmp_path):
    first, second = Notes(stop=2), Notes()
    with pytest.raises(Interrupted):
        atoll.run(**SMALL, callbacks=[first], out=tmp_path / "r")
    assert first.calls[-1] == ("end", None)
    result = atoll.resume(tmp_path / "r", callbacks=[second])
    assert [told.round for told in second.rounds] == [3, 4]
    assert second.calls[-1] == ("end", result)


def read_events(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return events


def test_tensorboard_reads_every_client_back(here, tmp_path):
    done = here("run", "--method", "fed-avg", "--data", "patients", "--partition", "random",
                "--clients", "3", "--rounds", "4", "--log", "tensorboard", "--out",
                "r")  # fmt: skip
    assert done.returncode == 0, done.stderr
    events = read_events(tmp_path / "r" / "tensorboard")
    history = polars.read_parquet(tmp_path / "r" / "history.parquet")
    for client in range(3):
        scalars = events.Scalars(f"val_accuracy/client {client}")
        rows = history.filter(polars.col("client") == client).sort("round")
        assert [s.step for s in scalars] == rows["round"].to_list()
        assert [s.value for s in scalars] == pytest.approx(rows["val_accuracy"].to_list())
    assert len(events.Scalars("test_loss/mean")) == 4
    text = events.Tensors("summary/text_summary")[0].tensor_proto.string_val[0].decode()
    assert '"method": "fed-avg"' in text


def test_a_resumed_run_has_each_round_once_in_tensorboard(tmp_path):
    with pytest.raises(Interrupted):
        atoll.run(**SMALL, callbacks=["tensorboard", Notes(stop=3)], out=tmp_path / "r")
    for checkpoint in (tmp_path / "r" / "checkpoints").iterdir():
        checkpoint.unlink()  # as if it had been killed before it saved a round
    atoll.resume(tmp_path / "r", callbacks=["tensorboard"])
    scalars = read_events(tmp_path / "r" / "tensorboard").Scalars("val_accuracy/mean")
    assert [scalar.step for scalar in scalars] == [1, 2, 3, 4]


def test_nothing_is_imported_unless_asked_for():
    code = (
        "import sys, atoll, tempfile\n"
        "from atoll.loggers.base import loggers; list(loggers)\n"
        "atoll.run(data='patients', clients=2, rounds=1, out=tempfile.mkdtemp())\n"
        "print({'tensorboard', 'mlflow', 'wandb', 'optuna'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
def test_a_missing_library_is_one_sentence(name, monkeypatch, here, tmp_path):
    monkeypatch.setitem(sys.modules, loggers[name].library, None)
    done = here("run", "--data", "patients", "--log", name, "--out", "r")
    assert done.returncode == 2
    assert done.stderr == (
        f"atoll: --log {name} needs a library that is not installed; install it with: "
        f"pip install 'atoll[{name}]'\n"
    )
    assert not (tmp_path / "r").exists()


def test_unknown_loggers_are_named():
    with pytest.raises(AtollError, match="unknown logger 'tensorbord': did you mean 'tensorboard'"):
        callbacks_of(["tensorbord"])


def test_a_callback_may_not_change_a_result(tmp_path):
    one = atoll.run(**SMALL, out=tmp_path / "a")
    other = atoll.run(**SMALL, callbacks=["tensorboard", Notes()], out=tmp_path / "b")
    for name, leaf in one.parameters.items():
        assert torch.equal(leaf, other.parameters[name])
