"""Simulations and studies on a Ray cluster: the bytes of one process, whatever the workers."""

from __future__ import annotations

import gc
import signal
import warnings
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from atoll.comparison import on_ray
from atoll.comparison.plan import Step
from atoll.comparison.runs import do_runs
from atoll.data.in_memory import from_graph
from atoll.errors import Interrupted
from atoll.experiment.choices import choose
from atoll.experiment.runner import resume, run_experiment
from atoll.experiment.trial import small_graph
from atoll.federation.cluster import Engine, connected

ON_RAY = Engine("ray", workers=2)
pytestmark = [
    pytest.mark.xdist_group("ray"),
    # Not loaded here: Ray reads from its surroundings then whom it lets in.
    pytest.mark.skipif(find_spec("ray") is None, reason="needs pip install 'atoll[ray]'"),
]


@pytest.fixture(scope="module")
def cluster():
    """One for all tests: it takes seconds to start."""
    with connected(ON_RAY) as ray:
        yield ray
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()  # Ray does not wait for the processes that it has ended


def small(method="fed-avg", rounds=4, **settings):
    return choose(
        method=method, data="patients", clients=7, rounds=rounds, chunk=2,
        settings=[("run.threads", 1), *settings.items()],
    )  # fmt: skip


def contents(run_dir: Path) -> dict[str, bytes]:
    """All that a run leaves behind, but for what has seconds in it."""
    timed = ("rounds.parquet", "summary.json")
    files = (p for p in run_dir.rglob("*") if p.is_file() and p.name not in timed)
    return {str(p.relative_to(run_dir)): p.read_bytes() for p in files if p.name[0] != "."}


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("fed-pub", {}),  # its server sees every reply, its clients keep states of their own
        # Chunks of clients from several homes; masks that must cancel between processes.
        ("fed-avg", {"method.fraction": 0.6, "privacy.secure_sum": True}),
    ],
)
def test_a_cluster_gives_the_bytes_of_one_process(cluster, tmp_path, method, settings):
    chosen = small(method, **settings)
    run_experiment(chosen, tmp_path / "here")
    run_experiment(chosen, tmp_path / "there", engine=ON_RAY)
    here, there = contents(tmp_path / "here"), contents(tmp_path / "there")
    assert {"parameters.safetensors", "best.safetensors", "ledger.parquet"} < set(here)
    assert here == there


def stop_after_two(round, _):
    if round == 2:
        signal.raise_signal(signal.SIGINT)


def test_begun_on_a_cluster_and_continued_in_one_process(cluster, tmp_path):
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    run_experiment(small("scaffold"), whole)
    with pytest.raises(Interrupted, match="interrupted after round 2"):
        run_experiment(small("scaffold"), parted, stop_after_two, engine=ON_RAY)
    resume(parted)
    assert contents(whole) == contents(parted)


def workers_of_this_process():
    raylets = [p for p in psutil.Process().children() if "raylet" in p.name()]
    found = (c for p in raylets for c in p.children())
    return [c for c in found if "Worker" in "".join(c.cmdline())]


def test_a_worker_that_is_killed_in_mid_round_changes_nothing(cluster, tmp_path, caplog):
    """Begun in one process, continued on a cluster, where a worker is lost after round 3."""
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    run_experiment(small(rounds=5), whole)
    with pytest.raises(Interrupted):
        run_experiment(small(rounds=5), parted, stop_after_two)
    rounds = []

    def kill_once(round, _):
        rounds.append(round)
        if rounds == [3]:
            workers_of_this_process()[0].kill()

    resume(parted, kill_once, engine=ON_RAY)
    assert rounds == [3, 3, 4, 5]  # again from the last checkpoint
    assert "The run goes on from round 3" in caplog.text
    assert contents(whole) == contents(parted)


@contextmanager
def unseen(out):
    yield str(out / "nowhere"), "a word"


@pytest.mark.parametrize("shared_folder", [True, False])
def test_runs_as_tasks_leave_what_runs_in_one_process_do(
    cluster, tmp_path, monkeypatch, shared_folder
):
    """Hosts that don't see the folder send files back. A graph in memory is sent along."""
    if not shared_folder:
        monkeypatch.setattr(on_ray, "seen_from_elsewhere", unseen)
    in_memory = choose(
        method="local", data=from_graph(small_graph()), partition="natural", rounds=2,
        settings=[("run.threads", 1)],
    )  # fmt: skip
    steps = [Step("fed-avg", 0, small(rounds=3)), Step("memory", 0, in_memory)]
    seen = []
    do_runs(steps, tmp_path / "here", 1, None)
    do_runs(steps, tmp_path / "there", 1, lambda *told: seen.append(told), engine=ON_RAY)
    assert seen[-1][:2] == (5, 5)
    assert contents(tmp_path / "here") == contents(tmp_path / "there")
