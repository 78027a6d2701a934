"""Flower from outside a run: its kits, its SuperLink, its SuperNodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from atoll.deploy.engine import Engine, Launch
from atoll.deploy.flower import kits
from atoll.deploy.flower.front import can_tell_users
from atoll.deploy.flower.kits import (
    forget,
    install,
    kit_facts,
    make_kits,
    new_control_port,
    request,
    sign,
)
from atoll.deploy.flower.operator import FlowerOperator
from atoll.deploy.flower.programs import flower_environment, site_environment
from atoll.deploy.operator import Operator
from atoll.deploy.processes import free_port, python, tool
from atoll.errors import AtollError

_THIS_MACHINE, _EVERYWHERE = "127.0.0.1", "0.0.0.0"


class Flower(Engine):
    """A SuperLink, one SuperNode per site, and one process more for every message."""

    name, package = "flower", "flwr"
    own_machine = _THIS_MACHINE

    def make_kits(self, out: Path, server: str, port: int, sites: Sequence[str]) -> None:
        make_kits(out, server, port, sites)

    def request(self, kit: Path, site: str) -> str:
        return request(kit)

    def sign(self, out: Path, site: str, request: str) -> dict[str, str]:
        return sign(out, site, request)

    def install(
        self, kit: Path, site: str, server: str, port: int, given: Mapping[str, str]
    ) -> None:
        install(kit, server, port, given)

    def request_side(self, kit: Path, side: str, server: str) -> str:
        return kits.request_side(kit, side)

    def sign_side(self, out: Path, side: str, server: str, request: str) -> dict[str, str]:
        return kits.sign_side(out, side, server, request)

    def install_side(
        self, kit: Path, side: str, server: str, port: int, given: Mapping[str, str]
    ) -> None:
        kits.install_side(kit, side, server, port, given)

    def forget(self, out: Path, site: str) -> None:
        super().forget(out, site)
        forget(out / "operator", site)

    def forget_side(self, out: Path, side: str) -> None:
        if side == "server":  # the operator's folder has the keys that sites are registered with
            super().forget_side(out, side)

    def server(self, kit: Path, host: str | None = None) -> Launch:
        facts = kit_facts(kit)
        outward = host or (_THIS_MACHINE if _is_here(str(facts["server"])) else _EVERYWHERE)
        if not (_is_here(outward) or can_tell_users()):
            raise AtollError(
                f"Flower can't serve '{outward}' on this system, which does not say whose a "
                f"connection is, so that anybody here could start runs; use --engine nvflare."
            )
        command = [
            *python("-m", "atoll.deploy.flower.superlink", outward, str(facts["port"])),
            *("--ssl-ca-certfile", str(kit / "ca.pem")),
            *("--ssl-certfile", str(kit / "server.pem")),
            *("--ssl-keyfile", str(kit / "server.key")),
            "--enable-supernode-auth",
            "--disable-runtime-dependency-installation",
            *("--database", str((kit / "superlink.db").resolve())),
            *("--host", _THIS_MACHINE),
            *("--port", str(new_control_port(kit))),
        ]
        return Launch(command, flower_environment(kit))

    def client(self, kit: Path, site: str) -> Launch:
        facts = kit_facts(kit)
        command = [
            *python("-m", "atoll.deploy.flower.supernode"),
            tool("flower-supernode"),
            *("--root-certificates", str(kit / "ca.pem")),
            *("--superlink", f"{facts['server']}:{facts['port']}"),
            *("--auth-supernode-private-key", str(kit / "site.key")),
            *("--host", _THIS_MACHINE, "--port", str(free_port())),
        ]
        return Launch(command, site_environment(kit))

    def port(self, kit: Path) -> int:
        return int(kit_facts(kit)["port"])

    def operator(self, kit: Path) -> Operator:
        operator = FlowerOperator(kit)
        operator.register()
        return operator


def _is_here(host: str) -> bool:
    return host in ("localhost", _THIS_MACHINE)
