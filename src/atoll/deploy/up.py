"""A whole federation on this machine: loopback only, secured as in production."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from atoll.data.parties import party_folders
from atoll.deploy.journal import Journal
from atoll.deploy.operator import Operator
from atoll.deploy.plan import Plan, Terms, new_plan, read_plan, require_engine
from atoll.deploy.processes import Household, Process
from atoll.deploy.settings import SLOW
from atoll.deploy.supervisor import Supervisor
from atoll.errors import AtollError, Interrupted
from atoll.experiment.config import Experiment
from atoll.experiment.result import Result, is_complete, load_result, new_run_dir, store_setup
from atoll.experiment.runner import Progress, load_parties
from atoll.files import write_json

_FEDERATION = "federation"
_SECONDS_TO_CONNECT, _SECONDS_TO_FINISH = 180.0, 30.0


class Local(Protocol):
    """An engine's way of running everything on this machine."""

    def prepare(self, sites: dict[str, Path]) -> None:
        """Make keys and settings, unless they are there."""

    def start_server(self, household: Household) -> None: ...

    def start_site(
        self, household: Household, site: str, data: Path, more: dict[str, str] | None = None
    ) -> Process: ...

    def operator(self) -> Operator: ...


@dataclass
class Stage:
    """A federation that stands: its server, its nodes, and an operator to run plans on it."""

    engine: Local
    household: Household
    sites: dict[str, Path]
    runs: Path
    operator: Operator
    interrupted: Callable[[], bool]

    def run(self, plan: Plan, run_dir: Path, progress: Progress | None = None) -> Result:
        """See a run through and return its result."""
        link = self.runs / plan.run
        if not link.is_symlink():
            link.symlink_to(run_dir.resolve(), target_is_directory=True)
        asked: list[float] = []

        def check() -> None:
            _server_lives(self.household, run_dir)
            if self.interrupted():
                _stop_in_order(run_dir, asked)

        Supervisor(self.operator, plan, run_dir, progress, check).run()
        return load_result(run_dir, plan.experiment)


@contextmanager
def federation(
    home: Path, engine: str, sites: dict[str, Path], slow: dict[str, str] | None = None
) -> Iterator[Stage]:
    """A federation on this machine, its keys, logs and states under ``home``; ended on leaving.

    ``slow`` delays every step of a site by so many seconds, for drills.
    """
    runs = home / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    with Household() as household, _interrupts() as interrupted:
        local = _local(engine, home, runs)
        local.prepare(sites)
        local.start_server(household)
        for site, data in sites.items():
            local.start_site(household, site, data, {SLOW: (slow or {}).get(site, "0")})
        operator = local.operator()
        try:
            for _ in _until_connected(operator, household, set(sites)):
                if interrupted():
                    raise Interrupted(
                        f"interrupted while starting; continue with: atoll resume {home.parent}"
                    )
            yield Stage(local, household, sites, runs, operator, interrupted)
        finally:
            operator.close()


def _local(engine: str, home: Path, runs: Path) -> Local:
    if engine == "nvflare":
        from atoll.deploy.nvflare_local import LocalFlare

        return LocalFlare(home, runs)
    from atoll.deploy.flower_local import LocalFlower

    return LocalFlower(home, runs)


def up(
    folder: str,
    experiment: Experiment,
    engine: str,
    terms: Terms,
    out: Path | None = None,
    progress: Progress | None = None,
    network: Path | None = None,
) -> Result:
    """Run an experiment with a real server and a real node a site, and end them all."""
    require_engine(engine)
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
    require_engine(plan.engine)
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


def _until_connected(operator: Operator, household: Household, sites: set[str]) -> Iterator[None]:
    """Looks until all are connected; a node that ends meanwhile is told of."""
    until = time.monotonic() + _SECONDS_TO_CONNECT
    while missing := sites - operator.connected():
        yield
        for process in household.members.values():
            if not process.alive:
                raise AtollError(
                    f"{process.name} ended while starting ({process.last_words()}); see "
                    f"{process.log}"
                )
        if time.monotonic() > until:
            raise AtollError(
                f"{', '.join(sorted(missing))} did not connect within {_SECONDS_TO_CONNECT:g} s; "
                f"see the logs of the run's federation folder."
            )
        time.sleep(0.5)


def _server_lives(household: Household, run_dir: Path) -> None:
    server = household.members["the server"]
    if not server.alive:
        raise AtollError(
            f"the server died after round {Journal(run_dir).status().get('round', 0)}; see "
            f"{server.log} and continue with: atoll resume {run_dir}"
        )


def _stop_in_order(run_dir: Path, asked: list[float]) -> None:
    """Let the round finish, then end; but not forever, and not before there is one."""
    journal = Journal(run_dir)
    if not asked:
        journal.ask_for_handover()
        asked.append(time.monotonic())
    status = journal.status()
    late = time.monotonic() - asked[0] > _SECONDS_TO_FINISH
    if status.get("state") in (None, "handover") or late:
        raise Interrupted(
            f"interrupted after round {status.get('round', 0)}; continue with: atoll resume "
            f"{run_dir}"
        )


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C or TERM lets the round finish; a second Ctrl-C stops at once."""
    pressed = 0

    def on_signal(*_: object) -> None:
        nonlocal pressed
        pressed += 1
        if pressed > 1:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {n: signal.signal(n, on_signal) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: pressed > 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _lay_down_network(run_dir: Path, experiment: Experiment, file: Path | None, plan: Plan) -> None:
    """The network among sites: from a file, or counted from the folders, which are all here."""
    from atoll.deploy.network import read_network

    if file is not None:
        matrix = read_network(file, plan.sites)
    else:
        counted = load_parties(experiment).network
        assert counted is not None
        matrix = torch.from_numpy(counted.toarray())
    Journal(run_dir).keep_network(matrix)
