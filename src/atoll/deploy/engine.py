"""What an engine must offer so that a federation can be run on it."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, NamedTuple

from atoll.deploy.operator import Operator
from atoll.deploy.processes import Process
from atoll.deploy.settings import RUNS, SERVER_KIT, site_environment
from atoll.errors import AtollError


class Launch(NamedTuple):
    """How a program is started."""

    command: list[str]
    env: dict[str, str]


class Engine(ABC):
    """An existing engine that carries the messages of a federation.

    What each side needs lies in folders, the *kits*. Inside a job the engine's adapter is a
    :class:`~atoll.deploy.fleet.Fleet`, from outside it is an
    :class:`~atoll.deploy.operator.Operator`; here is what starts both sides.
    """

    # As it is named by users, and the package whose presence shows that it is installed.
    name: ClassVar[str]
    package: ClassVar[str]
    # The server's name for sites on its own machine. A server of this name listens there alone.
    own_machine: ClassVar[str]

    @abstractmethod
    def make_kits(self, out: Path, server: str, port: int, sites: Sequence[str]) -> None:
        """Folders ``server``, ``operator``, ``site-NAME`` per site, and the authority's secrets.

        ``server`` is the name that sites dial and that its certificate bears. Called again with
        more sites it makes kits for the new ones under the same authority and leaves the others
        alone.
        """

    @abstractmethod
    def request(self, kit: Path, site: str) -> str:
        """Make the engine's secret key of a site in its kit; returns what the authority needs to
        know of it, which is public."""

    @abstractmethod
    def sign(self, out: Path, site: str, request: str) -> dict[str, str]:
        """The authority's answer to a site's :meth:`request`; public."""

    @abstractmethod
    def install(
        self, kit: Path, site: str, server: str, port: int, given: Mapping[str, str]
    ) -> None:
        """Complete a kit that has the engine's secret key with what the authority answered."""

    @abstractmethod
    def request_side(self, kit: Path, side: str, server: str) -> str:
        """As :meth:`request`, for the ``side`` ``server`` or ``operator``; ``server`` is the name
        that sites dial. Empty where a side has no secret of the engine's."""

    @abstractmethod
    def sign_side(self, out: Path, side: str, server: str, request: str) -> dict[str, str]:
        """As :meth:`sign`, for such a side."""

    @abstractmethod
    def install_side(
        self, kit: Path, side: str, server: str, port: int, given: Mapping[str, str]
    ) -> None:
        """As :meth:`install`, for such a side."""

    def forget(self, out: Path, site: str) -> None:
        """Remove what :meth:`make_kits` has made for a site, as far as it is still here."""
        shutil.rmtree(out / f"site-{site}", ignore_errors=True)

    def forget_side(self, out: Path, side: str) -> None:
        """Remove the secrets that :meth:`make_kits` has made for such a side."""
        shutil.rmtree(out / side, ignore_errors=True)

    @abstractmethod
    def server(self, kit: Path, host: str | None = None) -> Launch:
        """The engine's server. ``host`` is the address to listen on, where it can be chosen."""

    @abstractmethod
    def client(self, kit: Path, site: str) -> Launch:
        """The engine's process at a site."""

    @abstractmethod
    def port(self, kit: Path) -> int:
        """Where the server of this kit listens."""

    @abstractmethod
    def operator(self, kit: Path) -> Operator:
        """An operator of a server that answers, and that knows all sites with a kit from now on."""

    def require(self) -> None:
        """Refuse to go on if the engine is not installed."""
        if find_spec(self.package) is None:
            raise AtollError(
                f"{self.name} is not installed; get it with: pip install 'atoll[{self.name}]'"
            )

    def start_server(self, kit: Path, runs: Path, log: Path, host: str | None = None) -> Process:
        command, env = self.server(kit, host)
        places = {RUNS: str(runs.resolve()), SERVER_KIT: str(kit.resolve())}
        return Process("the server", command, env | places, log)

    def start_site(
        self,
        kit: Path,
        site: str,
        data: Path,
        state: Path,
        log: Path,
        more: Mapping[str, str] | None = None,
        admits: Sequence[str] = (),
        policy: Path | None = None,
    ) -> Process:
        command, env = self.client(kit, site)
        env = env | site_environment(data, state, kit, admits, policy) | dict(more or {})
        return Process(f"site {site}", command, env, log)
