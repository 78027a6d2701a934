"""NVIDIA FLARE on this machine alone."""

from __future__ import annotations

import json
from pathlib import Path

from atoll.deploy.loopback import SECONDS_TO_LISTEN, OnLoopback
from atoll.deploy.nvflare_engine import FlareOperator, start_client, start_server
from atoll.deploy.nvflare_kits import make_kits
from atoll.deploy.operator import Operator
from atoll.deploy.processes import Household, Process, free_port, wait_for_port


class LocalFlare(OnLoopback):
    """A server and a client a site. The server's name is ``localhost``: it listens there alone."""

    def prepare(self, sites: dict[str, Path]) -> None:
        if not (self.kits / "server").is_dir():
            make_kits(self.kits, "localhost", free_port(), list(sites))

    def start_server(self, household: Household) -> None:
        log = self.log("server")
        server = household.add(start_server(self.kits / "server", self.runs, log))
        wait_for_port(self._port(), SECONDS_TO_LISTEN, server)

    def start_site(
        self, household: Household, site: str, data: Path, more: dict[str, str] | None = None
    ) -> Process:
        kit, log, state = self.kit(site), self.log(site), self.state(site)
        return household.add(start_client(kit, site, data, state, log, **(more or {})))

    def operator(self) -> Operator:
        return FlareOperator(self.kits / "operator")

    def _port(self) -> int:
        server = json.loads((self.kits / "server" / "startup" / "fed_server.json").read_text())
        return int(server["servers"][0]["service"]["target"].rpartition(":")[2])
