"""A whole federation on this machine: loopback only, secured as in production."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from atoll.deploy.engine import Engine
from atoll.deploy.engines import engine_named
from atoll.deploy.journal import Journal
from atoll.deploy.kits import make_kits
from atoll.deploy.operator import Operator, wait_for_operator
from atoll.deploy.plan import Plan
from atoll.deploy.policy.default import open_table
from atoll.deploy.processes import Process, ProcessGroup, free_port, wait_for_port
from atoll.deploy.refusal import with_their_words
from atoll.deploy.settings import SLOW
from atoll.deploy.supervisor import Supervisor
from atoll.deploy.voice import voice_of
from atoll.errors import AtollError, Interrupted
from atoll.experiment.result import Result, load_result
from atoll.experiment.runner import Progress
from atoll.files import for_its_owner, write_toml

# Is told what has been done.
Say = Callable[[str], None]
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
    # The plug-ins that its sites admit.
    admits: tuple[str, ...] = ()
    say: Say = lambda phase: None
    # What its sites let be done.
    policy: Path | None = None
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
        with for_its_owner():
            self.runs.mkdir(parents=True, exist_ok=True)
        kit = self.kits / "server"
        if not kit.is_dir():
            address = f"{self.engine.own_machine}:{free_port()}"
            make_kits(self.kits, self.engine, address, list(self.sites))
            self.say(f"certificates: made for the server, its operator and {len(self.sites)} sites")
        voice_of(kit)  # what is wrong with its keys is said before anything starts
        server = self.engine.start_server(kit, self.runs, self.log("server"))
        wait_for_port(self.port, _SECONDS_TO_LISTEN, self.processes.add(server))
        self.say(f"server: listens on port {self.port} of this machine")

    def connect_operator(self) -> Operator:
        self.operator = wait_for_operator(
            lambda: self.engine.operator(self.kits / "operator"),
            self._check_start,
            _SECONDS_TO_CONNECT,
        )
        return self.operator

    def start_site(self, site: str, more: Mapping[str, str] | None = None) -> Process:
        kit, state = self.kits / f"site-{site}", self.home / "state" / site
        process = self.engine.start_site(
            kit, site, self.sites[site], state, self.log(site), more, self.admits, self.policy
        )
        return self.processes.add(process)

    def log(self, who: str) -> Path:
        return self.home / "logs" / f"{who}.log"

    def run(self, plan: Plan, run_dir: Path, progress: Progress | None = None) -> Result:
        """See a run through and return its result."""
        link = self.runs / plan.run
        if not link.is_symlink():
            link.symlink_to(run_dir.resolve(), target_is_directory=True)
        stopping: list[float] = []
        began, told = time.time(), Told(self.say)

        def check() -> None:
            _server_lives(self.processes, run_dir)
            told.look(Journal(run_dir).status(), began)
            if self.interrupted():
                _stop_in_order(run_dir, stopping)

        try:
            Supervisor(self.operator, plan, run_dir, progress, check).run()
        except Interrupted:
            raise
        except AtollError as problem:
            states = {site: self.home / "state" / site for site in self.sites}
            raise AtollError(with_their_words(str(problem), states, began)) from problem
        return load_result(run_dir, plan.experiment)

    def wait_for_sites(self) -> None:
        """Until all are connected."""
        until, seen = time.monotonic() + _SECONDS_TO_CONNECT, 0
        while True:
            missing = set(self.sites) - self.operator.connected()
            if (here := len(self.sites) - len(missing)) != seen:
                seen = here
                self.say(f"sites: {here} of {len(self.sites)} connected")
            if not missing:
                return
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
    home: Path,
    engine: str,
    sites: dict[str, Path],
    slow: Mapping[str, str] | None = None,
    admits: tuple[str, ...] = (),
    say: Say = lambda phase: None,
    policy: Path | None = None,
) -> Iterator[LocalFederation]:
    """A federation on this machine that stands, and is ended on leaving.

    ``slow`` delays every step of a site by so many seconds, for drills. ``admits`` are the plug-ins
    that the sites run: on one machine, those that its user has named for the run. ``say`` is told
    what has been done. ``policy`` is a file that all sites keep to; without one they admit whatever
    is run on them, plug-ins excepted.
    """
    if policy is None:
        policy = home / "policy.toml"
        with for_its_owner():
            write_toml(policy, open_table())
    with ProcessGroup() as processes, _interrupts() as interrupted:
        stage = LocalFederation(
            engine_named(engine), home, sites, processes, interrupted, admits, say, policy
        )
        stage.start_server()
        with closing(stage.connect_operator()):
            for site in sites:
                stage.start_site(site, {SLOW: (slow or {}).get(site, "0")})
            stage.wait_for_sites()
            yield stage


class Told:
    """What a coordinator reports before and between rounds, said once each."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._last = ""
        self._running = False

    def look(self, status: Mapping[str, Any], since: float) -> None:
        if float(status.get("time", 0)) < since:
            return
        phase = ""
        if status["state"] == "waiting":
            phase = f"waiting: {status['message']}"
        elif status["state"] == "running" and not self._running:
            done = int(status["round"])
            phase = f"rounds: round {done} is done" if done else "rounds: the first is under way"
            self._running = True
        if phase and phase != self._last:
            self._say(phase)
        self._last = phase or self._last


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
