"""A server with sites elsewhere: it serves its engine, and sees runs through on its own.

Runs arrive as files in the ``runs`` folder, put there by the operator's ``atoll submit`` on the
server's machine. One that is not complete when the server starts is continued: so a server that its
machine restarts needs nobody's help.
"""

from __future__ import annotations

import logging
import signal
import time
from pathlib import Path
from typing import Any

from atoll.deploy.journal import Journal
from atoll.deploy.kits import engine_of
from atoll.deploy.operator import Operator, wait_for_operator
from atoll.deploy.plan import is_deployed, read_plan
from atoll.deploy.processes import Process, ProcessGroup
from atoll.deploy.supervisor import Supervisor
from atoll.deploy.voice import voice_of
from atoll.errors import AtollError
from atoll.experiment.run_dir import is_complete
from atoll.files import held

log = logging.getLogger("atoll")
_BETWEEN_LOOKS = 2.0
_SECONDS_TO_ANSWER = 120.0


class Ended(Exception):
    """The service is to end."""


def serve(kits: Path, runs: Path, host: str | None = None) -> None:
    """Run the server until a signal ends it; runs one after the other."""
    engine = engine_of(kits / "server")
    runs.mkdir(mode=0o700, parents=True, exist_ok=True)
    voice_of(kits / "server", runs)  # what is wrong with its keys is said before anything starts
    before = {n: signal.signal(n, _end) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        with held(runs), ProcessGroup() as processes:
            log_file = runs / "server.log"
            server = processes.add(engine.start_server(kits / "server", runs, log_file, host))
            operator = wait_for_operator(
                lambda: engine.operator(kits / "operator"),
                lambda: _check(server),
                _SECONDS_TO_ANSWER,
            )
            try:
                _work(operator, server, runs)
            finally:
                operator.close()
    except Ended:
        log.warning("the server has ended.")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _work(operator: Operator, server: Process, runs: Path) -> None:
    given_up: set[Path] = set()
    while True:
        _check(server)
        for run_dir in waiting_runs(runs):
            if run_dir in given_up and not (run_dir / AGAIN).exists():
                continue
            (run_dir / AGAIN).unlink(missing_ok=True)
            plan = read_plan(run_dir)
            log.warning("run %s: begins or continues.", plan.run)
            try:
                Supervisor(operator, plan, run_dir, check=lambda: _check(server)).run()
                log.warning("run %s: complete.", plan.run)
            except AtollError as problem:
                _check(server)
                log.warning("run %s: %s", plan.run, problem)
                given_up.add(run_dir)
        time.sleep(_BETWEEN_LOOKS)


AGAIN = "resume"


def waiting_runs(runs: Path) -> list[Path]:
    """Runs that are not complete, the oldest first."""
    found = [p for p in runs.iterdir() if is_deployed(p) and not is_complete(p)]
    return sorted(found, key=lambda p: p.stat().st_mtime)


def statuses(runs: Path) -> list[dict[str, Any]]:
    """What every run last said, for an operator."""
    found = []
    for run_dir in sorted(p for p in runs.iterdir() if is_deployed(p)):
        status = Journal(run_dir).status() or {"state": "waiting", "round": 0, "rounds": 0}
        found.append({"run": run_dir.name, **status})
    return found


def _check(server: Process) -> None:
    if not server.alive:
        raise AtollError(f"the engine's server died ({server.last_words()}); see {server.log}")


def _end(*_: object) -> None:
    raise Ended
