"""Flower from outside a run: kits, its SuperLink and SuperNodes, and an operator's commands."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from atoll.deploy.certificates import make_authority, make_node_key, make_server_certificate
from atoll.deploy.operator import JobState, Operator, OutOfTouch
from atoll.deploy.plan import Plan
from atoll.deploy.processes import Process, python, tool
from atoll.deploy.settings import RUNS, quiet_environment, site_environment
from atoll.errors import AtollError
from atoll.experiment.config import describe
from atoll.files import folder_whole, write_json, write_text, write_toml

_SECONDS_FOR_A_COMMAND = 120.0
_REGISTERED = "registered.json"
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
                "config": {"plan": "", "experiment": "", "nodes": ""},
            }
        },
        "hatch": {"build": {"targets": {"wheel": {"packages": ["."]}}}},
    },
}
_MODULES = {
    "atoll_server.py": "from atoll.deploy.flower_server import server\n\n__all__ = ['server']\n",
    "atoll_client.py": "from atoll.deploy.flower_client import client\n\n__all__ = ['client']\n",
}


def make_kits(out: Path, server: str, port: int, sites: Sequence[str]) -> None:
    """Folders ``server``, ``operator`` and ``site-NAME``, and the authority's own secrets.

    Called again with more sites it makes kits for the new ones and leaves the others alone.
    """
    authority = out / "authority"
    if not (authority / "ca.pem").is_file():
        make_authority(authority)
    facts = {"server": server, "port": port}
    for folder in ("server", "operator", *(f"site-{site}" for site in sites)):
        kit = out / folder
        if kit.exists():
            continue
        with folder_whole(kit) as part:
            shutil.copy(authority / "ca.pem", part / "ca.pem")
            write_json(part / "kit.json", facts | {"engine": "flower"})
    if not (out / "server" / "server.pem").is_file():
        make_server_certificate(authority, out / "server", server)
    for site in sites:
        if not (out / f"site-{site}" / "node.key").is_file():
            public = out / "operator" / "nodes" / f"{site}.pub"
            make_node_key(out / f"site-{site}" / "node.key", public)


def kit_facts(kit: Path) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = json.loads((kit / "kit.json").read_text())
        return facts
    except (OSError, ValueError):
        raise AtollError(f"'{kit}' is no kit of Flower; make one with: atoll keys") from None


def server_command(kit: Path, host: str) -> list[str]:
    port = kit_facts(kit)["port"]
    return [
        tool("flower-superlink"),
        *("--ssl-ca-certfile", str(kit / "ca.pem")),
        *("--ssl-certfile", str(kit / "server.pem")),
        *("--ssl-keyfile", str(kit / "server.key")),
        "--enable-supernode-auth",
        "--disable-runtime-dependency-installation",
        *("--database", str((kit / "superlink.db").resolve())),
        *("--host", host, "--port", str(port)),
    ]


def client_command(kit: Path, runtime_port: int) -> list[str]:
    facts = kit_facts(kit)
    return [
        *python("-m", "atoll.deploy.flower_node"),
        tool("flower-supernode"),
        *("--root-certificates", str(kit / "ca.pem")),
        *("--superlink", f"{facts['server']}:{facts['port']}"),
        *("--auth-supernode-private-key", str(kit / "node.key")),
        *("--host", "127.0.0.1", "--port", str(runtime_port)),
    ]


def flower_environment(home: Path) -> dict[str, str]:
    """Flower's own folder lies in the kit, not in the user's home."""
    folder = home / "flower"
    folder.mkdir(parents=True, exist_ok=True)
    # Flower runs its own programs by name.
    path = f"{Path(tool('flower-superlink')).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return quiet_environment() | {"FLWR_HOME": str(folder.resolve()), "PATH": path}


def start_server(kit: Path, runs: Path, log: Path, host: str = "127.0.0.1") -> Process:
    env = flower_environment(kit) | {RUNS: str(runs.resolve())}
    return Process("the server", server_command(kit, host), env, log)


def start_client(
    kit: Path, site: str, data: Path, state: Path, log: Path, port: int, **more: str
) -> Process:
    env = flower_environment(kit) | site_environment(data, state) | more
    return Process(f"site {site}", client_command(kit, port), env, log)


class FlowerOperator(Operator):
    """Flower's own command, under a kit's connection."""

    # Each call is a process of two CPU-seconds.
    seconds_between_calls = 30.0

    def __init__(self, kit: Path) -> None:
        self.kit = kit.resolve()
        self.env = flower_environment(kit)
        facts = kit_facts(kit)
        connection = {
            "address": f"{facts['server']}:{facts['port']}",
            "root-certificates": str(self.kit / "ca.pem"),
        }
        config = {"superlink": {"default": "atoll", "atoll": connection}}
        write_toml(Path(self.env["FLWR_HOME"], "config.toml"), config)

    def register(self) -> None:
        """Make the nodes' keys known to the SuperLink, and note which node is which site."""
        known = self._registered()
        there = {str(node["node-id"]) for node in self._listed()}
        for key in sorted((self.kit / "nodes").glob("*.pub")):
            if known.get(key.stem) not in there:
                said = self._flwr("supernode", "register", str(key), "atoll", "--name", key.stem)
                known[key.stem] = str(said["node-id"])
                write_json(self.kit / _REGISTERED, known)

    def submit(self, plan: Plan) -> str:
        with tempfile.TemporaryDirectory() as folder:
            app = Path(folder) / "app"
            write_toml(app / "pyproject.toml", _APP)
            for name, module in _MODULES.items():
                write_text(app / name, module)
            values = {
                "plan": json.dumps(plan.table()),
                "experiment": json.dumps(describe(plan.experiment)),
                "nodes": json.dumps(self._registered()),
            }
            write_toml(Path(folder) / "values.toml", values)
            said = self._flwr("run", str(app), "atoll", "-c", str(Path(folder) / "values.toml"))
        return str(said["run-id"])

    def state(self, job: str) -> JobState:
        said = self._flwr("ls", "atoll", "--run-id", job)
        [run] = said["runs"]
        status = str(run["status"])
        if status.startswith("finished"):
            return "ended"
        return "running" if status.startswith("running") else "waiting"

    def stop(self, job: str) -> None:
        self._flwr("stop", job, "atoll")

    def connected(self) -> set[str]:
        online = {str(node["node-id"]) for node in self._listed() if node["status"] == "online"}
        return {site for site, node in self._registered().items() if node in online}

    def _registered(self) -> dict[str, str]:
        """Which node is which site."""
        path = self.kit / _REGISTERED
        return json.loads(path.read_text()) if path.is_file() else {}

    def _listed(self) -> list[dict[str, Any]]:
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
            )
        except subprocess.TimeoutExpired:
            raise OutOfTouch(f"flwr {arguments[0]} did not answer in time.") from None
        start = done.stdout.find("{")
        try:
            said: dict[str, Any] = json.loads(done.stdout[start:])
        except ValueError:
            said = {"success": False, "error-message": (done.stderr or done.stdout).strip()[-300:]}
        if not said.get("success"):
            reason = said.get("error-message", "it gives no reason")
            raise OutOfTouch(f"flwr {arguments[0]} failed: {reason}")
        return said
