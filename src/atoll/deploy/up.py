"""A run on a federation that is set up on this machine for it, and ended with it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import torch

from atoll.data.parties import party_folders
from atoll.deploy.engines import engine_named
from atoll.deploy.journal import Journal
from atoll.deploy.local import federation
from atoll.deploy.network import read_network
from atoll.deploy.plan import Plan, Terms, new_plan, read_plan
from atoll.errors import AtollError
from atoll.experiment.config import Experiment
from atoll.experiment.result import Result, is_complete, load_result, new_run_dir, store_setup
from atoll.experiment.runner import Progress, load_parties
from atoll.files import write_json

_FEDERATION = "federation"


def up(
    folder: str,
    experiment: Experiment,
    engine: str,
    terms: Terms,
    out: Path | None = None,
    progress: Progress | None = None,
    network: Path | None = None,
) -> Result:
    """Run an experiment with a real server and one real process per site, and end them all."""
    engine_named(engine).require()
    sites = site_names(party_folders(folder))
    plan = new_plan(engine, tuple(sites), experiment, terms)
    run_dir = new_run_dir(experiment, out).resolve()
    store_setup(run_dir, experiment, experiment.run.threads)
    plan.store(run_dir)
    write_json(run_dir / _FEDERATION / "folder.json", {"folder": str(Path(folder).resolve())})
    if experiment.method.needs_network:
        _lay_down_network(run_dir, experiment, network, plan)
    with federation(run_dir / _FEDERATION, plan.engine, sites) as stage:
        return stage.run(plan, run_dir, progress)


def resume_up(run_dir: Path, progress: Progress | None = None) -> Result:
    """Start the federation of an interrupted run again and continue it."""
    run_dir = run_dir.resolve()
    plan = read_plan(run_dir)
    engine_named(plan.engine).require()
    if is_complete(run_dir):
        return load_result(run_dir, plan.experiment)
    file = run_dir / _FEDERATION / "folder.json"
    if not file.is_file():
        raise AtollError(
            f"'{run_dir}' is a run of a server with sites elsewhere; continue it with: atoll "
            f"submit --resume {plan.run}"
        )
    sites = site_names(party_folders(json.loads(file.read_text())["folder"]))
    with federation(run_dir / _FEDERATION, plan.engine, sites) as stage:
        return stage.run(plan, run_dir, progress)


def site_names(folders: list[Path]) -> dict[str, Path]:
    """The parties' folders as names that certificates can bear."""
    names: dict[str, Path] = {}
    for folder in folders:
        plain = re.sub(r"[^A-Za-z0-9]+", "-", folder.name).strip("-")[:50] or "site"
        number, name = 1, plain
        while name in names:
            number += 1
            name = f"{plain}-{number}"
        names[name] = folder
    return names


def _lay_down_network(run_dir: Path, experiment: Experiment, file: Path | None, plan: Plan) -> None:
    """The network among sites: from a file, or counted from the folders, which are all here."""
    if file is not None:
        matrix = read_network(file, plan.sites)
    else:
        counted = load_parties(experiment).network
        assert counted is not None
        matrix = torch.from_numpy(counted.toarray())
    Journal(run_dir).keep_network(matrix)
