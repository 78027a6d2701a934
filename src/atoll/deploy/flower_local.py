"""Flower on this machine alone."""

from __future__ import annotations

from pathlib import Path

from atoll.deploy.flower_engine import (
    FlowerOperator,
    kit_facts,
    make_kits,
    start_client,
    start_server,
)
from atoll.deploy.loopback import SECONDS_TO_LISTEN, OnLoopback
from atoll.deploy.operator import Operator
from atoll.deploy.processes import Household, Process, free_port, wait_for_port


class LocalFlower(OnLoopback):
    """A SuperLink and a SuperNode a site, all on loopback."""

    def prepare(self, sites: dict[str, Path]) -> None:
        if not (self.kits / "server").is_dir():
            make_kits(self.kits, "127.0.0.1", free_port(), list(sites))

    def start_server(self, household: Household) -> None:
        kit, log = self.kits / "server", self.log("server")
        server = household.add(start_server(kit, self.runs, log))
        wait_for_port(int(kit_facts(kit)["port"]), SECONDS_TO_LISTEN, server)
        FlowerOperator(self.kits / "operator").register()

    def start_site(
        self, household: Household, site: str, data: Path, more: dict[str, str] | None = None
    ) -> Process:
        kit, log, state = self.kit(site), self.log(site), self.state(site)
        return household.add(start_client(kit, site, data, state, log, free_port(), **(more or {})))

    def operator(self) -> Operator:
        return FlowerOperator(self.kits / "operator")
