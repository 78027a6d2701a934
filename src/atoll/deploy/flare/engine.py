"""NVIDIA FLARE from outside a job: its kits, its server, its clients."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from atoll.deploy.engine import Engine, Launch
from atoll.deploy.flare import kits
from atoll.deploy.flare.kits import install, keep_storage_in, make_kits, request, sign
from atoll.deploy.flare.operator import FlareOperator
from atoll.deploy.operator import Operator
from atoll.deploy.processes import python
from atoll.deploy.settings import quiet_environment
from atoll.errors import AtollError


class Flare(Engine):
    """One server and one client per site, all of which live as long as the federation."""

    name = package = "nvflare"
    own_machine = "localhost"

    def make_kits(self, out: Path, server: str, port: int, sites: Sequence[str]) -> None:
        make_kits(out, server, port, sites)

    def request(self, kit: Path, site: str) -> str:
        return request(kit, site)

    def sign(self, out: Path, site: str, request: str) -> dict[str, str]:
        return sign(out, site, request)

    def install(
        self, kit: Path, site: str, server: str, port: int, given: Mapping[str, str]
    ) -> None:
        install(kit, site, server, port, given)

    def request_side(self, kit: Path, side: str, server: str) -> str:
        return kits.request_side(kit, side, server)

    def sign_side(self, out: Path, side: str, server: str, request: str) -> dict[str, str]:
        return kits.sign_side(out, side, server, request)

    def install_side(
        self, kit: Path, side: str, server: str, port: int, given: Mapping[str, str]
    ) -> None:
        kits.install_side(kit, side, server, port, given)

    def server(self, kit: Path, host: str | None = None) -> Launch:
        if host is not None:
            raise AtollError(
                f"an NVIDIA FLARE server listens where its kit says, so --host {host} has no use; "
                f"leave it out."
            )
        launch = _launch("server", kit, [])
        keep_storage_in(kit)
        return launch

    def client(self, kit: Path, site: str) -> Launch:
        return _launch("client", kit, [f"uid={site}"])

    def port(self, kit: Path) -> int:
        server = json.loads((kit / "startup" / "fed_server.json").read_text())
        return int(server["servers"][0]["service"]["target"].rpartition(":")[2])

    def operator(self, kit: Path) -> Operator:
        """The certificates that the authority signed are enough: no site is made known by name."""
        return FlareOperator(kit)


def _launch(side: str, kit: Path, more: list[str]) -> Launch:
    if not (kit / "startup" / f"fed_{side}.json").is_file():
        raise AtollError(f"'{kit}' is no {side}'s kit; make one with: atoll keys")
    (kit / "transfer").mkdir(mode=0o700, exist_ok=True)
    settings = ["secure_train=true", *more, "org=atoll", "config_folder=config"]
    module = f"nvflare.private.fed.app.{side}.{side}_train"
    where = ["-m", str(kit.resolve()), "-s", f"fed_{side}.json"]
    command = python("-u", "-m", module, *where, "--set", *settings)
    return Launch(command, quiet_environment())
