"""NVIDIA FLARE from outside a job: its server, its clients, and an operator's session."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from atoll.deploy.nvflare_kits import OPERATOR, keep_storage_in
from atoll.deploy.operator import JobState, Operator
from atoll.deploy.plan import Plan
from atoll.deploy.processes import Process, python
from atoll.deploy.settings import RUNS, quiet_environment, site_environment
from atoll.errors import AtollError
from atoll.experiment.config import describe

_ENDED = ("FINISHED", "FAILED", "REJECTED", "ABANDONED")


def server_command(kit: Path) -> list[str]:
    keep_storage_in(kit)
    return _command("server", kit, [])


def client_command(kit: Path, site: str) -> list[str]:
    return _command("client", kit, [f"uid={site}"])


def _command(side: str, kit: Path, more: list[str]) -> list[str]:
    if not (kit / "startup" / f"fed_{side}.json").is_file():
        raise AtollError(f"'{kit}' is no {side}'s kit; make one with: atoll keys")
    (kit / "transfer").mkdir(exist_ok=True)
    settings = ["secure_train=true", *more, "org=atoll", "config_folder=config"]
    module = f"nvflare.private.fed.app.{side}.{side}_train"
    where = ["-m", str(kit.resolve()), "-s", f"fed_{side}.json"]
    return python("-u", "-m", module, *where, "--set", *settings)


def start_server(kit: Path, runs: Path, log: Path) -> Process:
    env = quiet_environment() | {RUNS: str(runs.resolve())}
    return Process("the server", server_command(kit), env, log)


def start_client(kit: Path, site: str, data: Path, state: Path, log: Path, **more: str) -> Process:
    env = quiet_environment() | site_environment(data, state) | more
    return Process(f"site {site}", client_command(kit, site), env, log)


class FlareOperator(Operator):
    """A session with the server, under the operator's certificate."""

    def __init__(self, kit: Path, seconds: float = 60.0) -> None:
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        logging.getLogger("nvflare").setLevel(logging.ERROR)
        try:
            # FLARE announces itself on standard output, where our results go.
            with contextlib.redirect_stdout(io.StringIO()):
                self.session = new_secure_session(OPERATOR, str(kit.resolve()), timeout=seconds)
        except Exception as problem:
            raise AtollError(
                f"the server does not answer the operator ({type(problem).__name__}); is it up, "
                f"and is '{kit}' its operator's kit?"
            ) from problem

    def submit(self, plan: Plan) -> str:
        with tempfile.TemporaryDirectory() as folder:
            _write_job(Path(folder) / plan.run, plan)
            job: str = self.session.submit_job(str(Path(folder) / plan.run))
            return job

    def state(self, job: str) -> JobState:
        status = str(self.session.get_job_meta(job).get("status", ""))
        if status.startswith(_ENDED):
            return "ended"
        return "running" if status == "RUNNING" else "waiting"

    def stop(self, job: str) -> None:
        self.session.abort_job(job)

    def connected(self) -> set[str]:
        return {client.name for client in self.session.get_connected_client_list()}

    def outside(self, job: str, sites: Collection[str]) -> set[str]:
        """FLARE lets nobody back into a running job: a site that has lost it needs a new one."""
        told = self.session.get_client_job_status() or []
        idle = {str(client["client_name"]) for client in told if client["status"] == "no_jobs"}
        return idle & set(sites)

    def close(self) -> None:
        self.session.close()


def _write_job(folder: Path, plan: Plan) -> None:
    """A job without code: which classes to use, and the plan."""
    described = describe(plan.experiment)
    workflow = {
        "id": "atoll",
        "path": "atoll.deploy.nvflare_job.AtollController",
        "args": {"plan": plan.table(), "experiment": described},
    }
    executor = {
        "tasks": ["*"],
        "executor": {"path": "atoll.deploy.nvflare_job.AtollExecutor", "args": {}},
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
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2))
