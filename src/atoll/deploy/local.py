"""A whole federation on this machine: loopback only, secured as in production."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from atoll.deploy.engine import Engine
from atoll.deploy.engines import engine_named
from atoll.deploy.journal import Journal
from atoll.deploy.operator import Operator, wait_for_operator
from atoll.deploy.plan import Plan
from atoll.deploy.processes import Process, ProcessGroup, free_port, wait_for_port
from atoll.deploy.settings import SLOW
from atoll.deploy.supervisor import Supervisor
from atoll.errors import AtollError, Interrupted
from atoll.experiment.result import Result, load_result
from atoll.experiment.runner import Progress

_SECONDS_TO_LISTEN, _SECONDS_TO_CONNECT, _SECONDS_TO_FINISH = 120.0, 180.0, 30.0


@dataclass
class LocalFederation:
    """A federation on this machine: its server, the sites' processes, and an operator.

    Keys, logs, runs and the sites' states lie under ``home``. ``sites`` are their folders of data.
    """

    engine: Engine
    home: Path
    sites: dict[str, Path]
    processes: ProcessGroup
    interrupted: Callable[[], bool]
    operator: Operator = field(init=False)

    @property
    def kits(self) -> Path:
        return self.home / "kits"

    @property
    def runs(self) -> Path:
        return self.home / "runs"

    @property
    def port(self) -> int:
        return self.engine.port(self.kits / "server")

    def start_server(self) -> None:
        """Make the kits unless they are there; returns when the server listens."""
        self.runs.mkdir(parents=True, exist_ok=True)
        kit = self.kits / "server"
        if not kit.is_dir():
            name, sites = self.engine.own_machine, list(self.sites)
            self.engine.make_kits(self.kits, name, free_port(), sites)
        server = self.engine.start_server(kit, self.runs, self.log("server"))
        wait_for_port(self.port, _SECONDS_TO_LISTEN, self.processes.add(server))

    def connect_operator(self) -> Operator:
        self.operator = wait_for_operator(
            lambda: self.engine.operator(self.kits / "operator"),
            self._check_start,
            _SECONDS_TO_CONNECT,
        )
        return self.operator

    def start_site(self, site: str, more: Mapping[str, str] | None = None) -> Process:
        kit, state = self.kits / f"site-{site}", self.home / "state" / site
        process = self.engine.start_site(kit, site, self.sites[site], state, self.log(site), more)
        return self.processes.add(process)

    def log(self, who: str) -> Path:
        return self.home / "logs" / f"{who}.log"

    def run(self, plan: Plan, run_dir: Path, progress: Progress | None = None) -> Result:
        """See a run through and return its result."""
        link = self.runs / plan.run
        if not link.is_symlink():
            link.symlink_to(run_dir.resolve(), target_is_directory=True)
        stopping: list[float] = []

        def check() -> None:
            _server_lives(self.processes, run_dir)
            if self.interrupted():
                _stop_in_order(run_dir, stopping)

        Supervisor(self.operator, plan, run_dir, progress, check).run()
        return load_result(run_dir, plan.experiment)

    def wait_for_sites(self) -> None:
        """Until all are connected."""
        until = time.monotonic() + _SECONDS_TO_CONNECT
        while missing := set(self.sites) - self.operator.connected():
            self._check_start()
            if time.monotonic() > until:
                raise AtollError(
                    f"{', '.join(sorted(missing))} did not connect within "
                    f"{_SECONDS_TO_CONNECT:g} s; see the logs of the run's federation folder."
                )
            time.sleep(0.5)

    def _check_start(self) -> None:
        """Stop waiting if a process has ended, or on an interrupt."""
        if self.interrupted():
            raise Interrupted(
                f"interrupted while starting; continue with: atoll resume {self.home.parent}"
            )
        for process in self.processes.members.values():
            if not process.alive:
                raise AtollError(
                    f"{process.name} ended while starting ({process.last_words()}); see "
                    f"{process.log}"
                )


@contextmanager
def federation(
    home: Path, engine: str, sites: dict[str, Path], slow: Mapping[str, str] | None = None
) -> Iterator[LocalFederation]:
    """A federation on this machine that stands, and is ended on leaving.

    ``slow`` delays every step of a site by so many seconds, for drills.
    """
    with ProcessGroup() as processes, _interrupts() as interrupted:
        stage = LocalFederation(engine_named(engine), home, sites, processes, interrupted)
        stage.start_server()
        with closing(stage.connect_operator()):
            for site in sites:
                stage.start_site(site, {SLOW: (slow or {}).get(site, "0")})
            stage.wait_for_sites()
            yield stage


def _server_lives(processes: ProcessGroup, run_dir: Path) -> None:
    server = processes.members["the server"]
    if not server.alive:
        raise AtollError(
            f"the server died after round {Journal(run_dir).status().get('round', 0)}; see "
            f"{server.log} and continue with: atoll resume {run_dir}"
        )


def _stop_in_order(run_dir: Path, stopping: list[float]) -> None:
    """Let the round finish, then end; but not forever, and not before there is one."""
    journal = Journal(run_dir)
    if not stopping:
        journal.ask_for_handover()
        stopping.append(time.monotonic())
    status = journal.status()
    late = time.monotonic() - stopping[0] > _SECONDS_TO_FINISH
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
