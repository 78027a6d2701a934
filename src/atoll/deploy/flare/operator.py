"""An operator of NVIDIA FLARE: a session with its server, and jobs that carry no code."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from atoll.deploy.flare.kits import CONTROLLER, EXECUTOR, OPERATOR
from atoll.deploy.operator import JobState, Operator, OutOfTouch
from atoll.deploy.plan import Plan
from atoll.experiment.config import describe
from atoll.files import write_json

_SECONDS_SINCE_HEARTBEAT = 25.0
_ENDED = ("FINISHED", "FAILED", "REJECTED", "ABANDONED")


class FlareOperator(Operator):
    """A session with the server, under the operator's certificate; opened anew when it breaks."""

    def __init__(self, kit: Path, seconds: float = 60.0) -> None:
        # FLARE's loggers have no common name; what they say of lost connections is reported by us.
        logging.getLogger("nvflare").setLevel(logging.CRITICAL)
        self.kit = kit.resolve()
        self.seconds = seconds
        self._session: Any = None
        self._ask(lambda session: session.get_system_info())

    def submit(self, plan: Plan) -> str:
        with tempfile.TemporaryDirectory() as folder:
            _write_job(Path(folder) / plan.run, plan)
            job = self._ask(lambda session: session.submit_job(str(Path(folder) / plan.run)))
        return str(job)

    def state(self, job: str) -> JobState:
        status = str(self._ask(lambda session: session.get_job_meta(job)).get("status", ""))
        if status.startswith(_ENDED):
            return "ended"
        return "running" if status == "RUNNING" else "waiting"

    def stop(self, job: str) -> None:
        self._ask(lambda session: session.abort_job(job))

    def connected(self) -> set[str]:
        return {client.name for client in self._clients()}

    def outside(self, job: str, sites: Collection[str]) -> set[str]:
        """FLARE lets nobody back into a running job: a site that has lost it needs a new one."""
        # To ask a silent site costs the server, and us, its whole timeout.
        recent = time.time() - _SECONDS_SINCE_HEARTBEAT
        awake = sorted(
            client.name
            for client in self._clients()
            if client.name in sites and (client.last_connect_time or 0.0) > recent
        )
        if not awake:
            return set()
        found = self._ask(lambda session: session.get_client_job_status(awake)) or []
        return {str(client["client_name"]) for client in found if client["status"] == "no_jobs"}

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(Exception):
                session.close()

    def _clients(self) -> list[Any]:
        found: list[Any] = self._ask(lambda session: session.get_connected_client_list())
        return found

    def _ask(self, command: Callable[[Any], Any]) -> Any:
        try:
            if self._session is None:
                self._session = self._new_session()
            return command(self._session)
        except Exception as problem:
            self.close()
            raise OutOfTouch(
                f"the server does not answer the operator ({type(problem).__name__}); is it up, "
                f"and is '{self.kit}' its operator's kit?"
            ) from problem

    def _new_session(self) -> Any:
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        # FLARE announces itself on standard output, where our results go.
        with contextlib.redirect_stdout(io.StringIO()):
            return new_secure_session(OPERATOR, str(self.kit), timeout=self.seconds)


def _write_job(folder: Path, plan: Plan) -> None:
    """A job without code: which classes to use, and the plan."""
    described = describe(plan.experiment)
    workflow = {
        "id": "atoll",
        "path": CONTROLLER,
        "args": {"plan": plan.table(), "experiment": described},
    }
    executor = {
        "tasks": ["*"],
        "executor": {"path": EXECUTOR, "args": {}},
    }
    files: dict[str, dict[str, Any]] = {
        "meta.json": {
            "name": plan.run,
            "resource_spec": {},
            "deploy_map": {"app": ["@ALL"]},
            "min_clients": plan.quorum,
        },
        "app/config/config_fed_server.json": {
            "format_version": 2,
            "workflows": [workflow],
            "components": [],
            "task_data_filters": [],
            "task_result_filters": [],
        },
        "app/config/config_fed_client.json": {
            "format_version": 2,
            "executors": [executor],
            "components": [],
            "task_data_filters": [],
            "task_result_filters": [],
        },
    }
    for name, content in files.items():
        write_json(folder / name, content)
