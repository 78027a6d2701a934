"""Handing a run to the server of this machine, and following it."""

from __future__ import annotations

import time
from pathlib import Path

from atoll.deploy.journal import Journal, needs_network
from atoll.deploy.kits import engine_of, sites_of
from atoll.deploy.network import read_network
from atoll.deploy.plan import Terms, is_deployed, is_run_name, new_plan, read_plan
from atoll.deploy.service import AGAIN
from atoll.deploy.voice import voice_of
from atoll.errors import AtollError
from atoll.experiment.config import Experiment
from atoll.experiment.result import Result, load_result
from atoll.experiment.run_dir import is_complete, store_setup
from atoll.experiment.runner import Progress

_BETWEEN_LOOKS = 0.5


def hand_in(
    runs: Path, kits: Path, experiment: Experiment, terms: Terms, network: Path | None
) -> Path:
    """Put a run where the server finds it."""
    voice_of(
        kits / "server", runs
    )  # a coordinator without its key would end before it could say so
    plan = new_plan(engine_of(kits / "server").name, sites_of(kits), experiment, terms)
    if experiment.method.needs_network and network is None:
        raise needs_network(experiment.method.registered_name)
    run_dir = runs / plan.run
    run_dir.mkdir(mode=0o700, parents=True)
    store_setup(run_dir, experiment, experiment.run.threads)
    if network is not None:
        Journal(run_dir).keep_network(read_network(network, plan.sites))
    plan.store(run_dir)
    return run_dir


def hand_in_again(runs: Path, run: str) -> Path:
    """Have the server take up a run that has stopped."""
    run_dir = runs / run
    if not is_run_name(run) or not is_deployed(run_dir):
        raise AtollError(f"there is no run '{run}' in '{runs}'; see: atoll status")
    journal = Journal(run_dir)
    journal.report(**journal.status() | {"state": "waiting", "message": ""})
    (run_dir / AGAIN).touch()
    return run_dir


def follow(run_dir: Path, progress: Progress) -> Result:
    """Until the run is complete or has stopped. Ctrl-C ends the watching, not the run."""
    shown, journal = 0, Journal(run_dir)
    while True:
        status = journal.status()
        if int(status.get("round", 0)) > shown:
            shown = int(status["round"])
            value = status.get("validation")
            progress(shown, float("nan") if value is None else float(value))
        if is_complete(run_dir):
            return load_result(run_dir, read_plan(run_dir).experiment)
        if status.get("state") in ("stopped", "failed"):
            raise AtollError(str(status.get("message") or "the run failed; see the server's log."))
        time.sleep(_BETWEEN_LOOKS)
