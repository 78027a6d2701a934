"""Simulations and studies on a Ray cluster: the bytes of one process, whatever the workers."""

from __future__ import annotations

import gc
import os
import signal
import time
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest

import atoll
from atoll.comparison.runs import do_runs
from atoll.comparison.plan import Step
from atoll.errors import AtollError, Interrupted
from atoll.experiment.choices import choose
from atoll.experiment.runner import resume, run_experiment
from atoll.federation.cluster import Engine, connected, engine_of
from atoll.graph.plain import Common, GraphsOfPlain, plain_graphs

psutil = pytest.importorskip("psutil", reason="needs psutil")
pytestmark = [
    pytest.mark.xdist_group("ray"),
    # Not loaded here: Ray reads from its surroundings then whom it lets in.
    pytest.mark.skipif(find_spec("ray") is None, reason="needs pip install 'atoll[ray]'"),
]
ON_RAY = Engine("ray", workers=3)
_SAME = ("parameters.safetensors", "best.safetensors", "history.parquet", "ledger.parquet",
         "over_all.parquet", "confusion.parquet")  # fmt: skip


@pytest.fixture(scope="module")
def cluster():
    """One for all tests: it takes seconds to start."""
    with connected(ON_RAY) as ray:
        yield ray
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()  # Ray does not wait for the processes that it has ended


def small(method="fed-avg", rounds=4, chunk=2, **settings):
    return choose(
        method=method, data="patients", clients=7, rounds=rounds, chunk=chunk,
        settings=[("run.threads", 1), *settings.items()],
    )  # fmt: skip


def contents(run_dir: Path) -> dict[str, bytes]:
    return {name: (run_dir / name).read_bytes() for name in _SAME}


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("fed-pub", {}),  # sees every reply; clients keep states of their own
        ("fed-avg", {"method.fraction": 0.6}),  # chunks of clients from several homes
        ("fed-avg", {"privacy.secure_sum": True}),
    ],
)
def test_same_bytes_as_in_one_process(cluster, tmp_path, method, settings):
    chosen = small(method, **settings)
    run_experiment(chosen, tmp_path / "here")
    run_experiment(chosen, tmp_path / "there", engine=ON_RAY)
    assert contents(tmp_path / "here") == contents(tmp_path / "there")
