"""A full disk, a TERM, a clock that is set back, a second process: nothing is lost."""

import hashlib
import resource
import signal
import subprocess
import sys
import time

import pytest

from atoll.errors import AtollError, Interrupted
from atoll.experiment import runner
from atoll.experiment.config import resolve
from atoll.experiment.runner import resume, run_experiment
from atoll.files import clear_leftovers, held

_ALL_ROUNDS = {"rounds": 6, "checkpoint_seconds": 0.0}


def small(run):
    return resolve(
        {
            "data": {"name": "patients"},
            "partition": {"name": "random", "clients": 3},
            "method": {"name": "fed-avg"},
            "model": {"name": "gcn", "hidden": 8},
            "run": run,
        }
    )


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("whole") / "run"
    run_experiment(small(run=_ALL_ROUNDS), run_dir)
    return digest(run_dir / "parameters.safetensors")


def test_a_full_disk_ends_the_run_in_words_and_loses_nothing(tmp_path, undisturbed):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(r, val):
        if r == 4:  # from now on no file can grow beyond this
            resource.setrlimit(resource.RLIMIT_FSIZE, (2048, before[1]))

    try:
        with pytest.raises(AtollError, match=r"there is no room for .*; what was there before is"):
            run_experiment(small(run=_ALL_ROUNDS), tmp_path / "run", fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list((tmp_path / "run").rglob("*.part"))
    assert sorted(p.name for p in (tmp_path / "run" / "checkpoints").iterdir()) == [
        "round-000002.safetensors", "round-000003.safetensors",
    ]  # fmt: skip
    resume(tmp_path / "run")
    assert digest(tmp_path / "run" / "parameters.safetensors") == undisturbed


def test_a_term_lets_the_round_finish_and_saves_it(tmp_path, undisturbed):
    def term(r, val):
        if r == 3:
            signal.raise_signal(signal.SIGTERM)

    quiet = small(run=_ALL_ROUNDS | {"checkpoint_seconds": 1000.0})
    with pytest.raises(Interrupted, match="interrupted after round 3"):
        run_experiment(quiet, tmp_path / "run", term)
    resume(tmp_path / "run")
    assert digest(tmp_path / "run" / "parameters.safetensors") == undisturbed


def test_a_clock_that_is_set_back_changes_nothing(tmp_path, undisturbed, monkeypatch):
    now = time.time()
    monkeypatch.setattr(time, "time", iter(range(int(now), 0, -86_400)).__next__)

    def stop(r, val):
        if r == 3:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        run_experiment(small(run=_ALL_ROUNDS), tmp_path / "run", stop)
    resume(tmp_path / "run")
    assert digest(tmp_path / "run" / "parameters.safetensors") == undisturbed


def test_a_second_process_on_one_run_gets_one_sentence(tmp_path, monkeypatch):
    def stop(r, val):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        run_experiment(small(run=_ALL_ROUNDS), tmp_path / "run", stop)
    hold = (
        "import time; from pathlib import Path; from atoll.files import held\n"
        f"with held(Path({str(tmp_path / 'run')!r})):\n"
        "    print('holds', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"holds\n"
        before = {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}
        with pytest.raises(AtollError, match="another process is at work in"):
            resume(tmp_path / "run")
        assert before == {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}
        other.kill()


def test_what_a_killed_process_left_half_written_is_removed(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    left = tmp_path / "checkpoints" / f".round-000001.safetensors.{gone.pid}-0123abcd.part"
    folder = tmp_path / f".kit.{gone.pid}-0123abcd.part"
    own = tmp_path / ".mine.part"
    left.parent.mkdir()
    left.write_bytes(b"half")
    (folder / "inside").mkdir(parents=True)
    own.write_text("the user's")
    with held(tmp_path):
        clear_leftovers(tmp_path)
    assert not left.exists()
    assert not folder.exists()
    assert own.exists()
    assert runner.clear_leftovers is clear_leftovers  # a run does it when it is continued
