"""An operator of Flower: its own command, and the app that every run is made of."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atoll.deploy.flower.kits import PUBLIC_KEYS, REGISTERED, control_port, kit_facts
from atoll.deploy.flower.programs import flower_environment
from atoll.deploy.operator import JobState, Operator, OutOfTouch
from atoll.deploy.plan import Plan
from atoll.deploy.processes import tool
from atoll.experiment.config import describe
from atoll.files import PRIVATE, write_json, write_text, write_toml

_SECONDS_FOR_A_COMMAND = 120.0
_APP = {
    "build-system": {"requires": ["hatchling"], "build-backend": "hatchling.build"},
    "project": {
        "name": "atoll-app",
        "version": "1.0.0",
        "license": "Apache-2.0",
        "dependencies": [],
    },
    "tool": {
        "flwr": {
            "app": {
                "publisher": "atoll",
                "components": {
                    "serverapp": "atoll_server:server",
                    "clientapp": "atoll_client:client",
                },
                "config": {"plan": "", "experiment": "", "supernodes": ""},
            }
        },
        "hatch": {"build": {"targets": {"wheel": {"packages": ["."]}}}},
    },
}
_SIDES = ("server", "client")
_MODULE = "from atoll.deploy.flower.{side}_app import {side}\n\n__all__ = ['{side}']\n"


class FlowerOperator(Operator):
    """Flower's own command, under a kit's connection."""

    # Each call is a process of two CPU-seconds.
    seconds_between_calls = 30.0

    def __init__(self, kit: Path) -> None:
        self.kit = kit.resolve()
        self.env = flower_environment(kit)
        kit_facts(kit)  # what is no kit is said here
        connection = {
            "address": f"127.0.0.1:{control_port(self.kit)}",
            "root-certificates": str(self.kit / "ca.pem"),
        }
        config = {"superlink": {"default": "atoll", "atoll": connection}}
        write_toml(Path(self.env["FLWR_HOME"], "config.toml"), config, PRIVATE)

    def register(self) -> None:
        """Make the sites' keys known to the SuperLink, and note which SuperNode is which site's."""
        known = self._registered()
        there = {str(supernode["node-id"]) for supernode in self.supernodes()}
        for key in sorted((self.kit / PUBLIC_KEYS).glob("*.pub")):
            if known.get(key.stem) not in there:
                output = self._flwr("supernode", "register", str(key), "atoll", "--name", key.stem)
                known[key.stem] = str(output["node-id"])
                write_json(self.kit / REGISTERED, known, PRIVATE)

    def submit(self, plan: Plan) -> str:
        self._stop_all()
        with tempfile.TemporaryDirectory() as folder:
            app = Path(folder) / "app"
            write_toml(app / "pyproject.toml", _APP)
            for side in _SIDES:
                write_text(app / f"atoll_{side}.py", _MODULE.format(side=side))
            values = {
                "plan": json.dumps(plan.table()),
                "experiment": json.dumps(describe(plan.experiment)),
                "supernodes": json.dumps(self._registered()),
            }
            write_toml(Path(folder) / "values.toml", values)
            output = self._flwr("run", str(app), "atoll", "-c", str(Path(folder) / "values.toml"))
        return str(output["run-id"])

    def _stop_all(self) -> None:
        """A SuperLink that is started again begins what the one before it had accepted."""
        for run in self._flwr("ls", "atoll")["runs"]:
            if _state(run) != "ended":
                self.stop(str(run["run-id"]))

    def state(self, job: str) -> JobState:
        [run] = self._flwr("ls", "atoll", "--run-id", job)["runs"]
        return _state(run)

    def stop(self, job: str) -> None:
        self._flwr("stop", job, "atoll")

    def connected(self) -> set[str]:
        found = self.supernodes()
        online = {str(one["node-id"]) for one in found if one["status"] == "online"}
        return {site for site, number in self._registered().items() if number in online}

    def _registered(self) -> dict[str, str]:
        """The number of each site's SuperNode."""
        path = self.kit / REGISTERED
        return json.loads(path.read_text()) if path.is_file() else {}

    def supernodes(self) -> list[dict[str, Any]]:
        """All that the SuperLink knows, as it lists them."""
        found: list[dict[str, Any]] = self._flwr("supernode", "list", "atoll")["nodes"]
        return found

    def _flwr(self, *arguments: str) -> dict[str, Any]:
        try:
            done = subprocess.run(
                [tool("flwr"), *arguments, "--format", "json"],
                env=self.env,
                capture_output=True,
                text=True,
                timeout=_SECONDS_FOR_A_COMMAND,
                check=False,
                umask=0o077,
            )
        except subprocess.TimeoutExpired:
            raise OutOfTouch(f"flwr {arguments[0]} did not answer in time.") from None
        start = done.stdout.find("{")
        try:
            output: dict[str, Any] = json.loads(done.stdout[start:])
        except ValueError:
            output = {
                "success": False,
                "error-message": (done.stderr or done.stdout).strip()[-300:],
            }
        if not output.get("success"):
            reason = output.get("error-message", "it gives no reason")
            raise OutOfTouch(f"flwr {arguments[0]} failed: {reason}")
        return output


def _state(run: Mapping[str, Any]) -> JobState:
    status = str(run["status"])
    if status.startswith("finished"):
        return "ended"
    return "running" if status.startswith("running") else "waiting"
