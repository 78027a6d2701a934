"""What each side of a federation needs, whatever the engine; and a site's own process."""

from __future__ import annotations

import json
import re
import secrets
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from atoll.data.parties import load_party
from atoll.deploy.engine import Engine
from atoll.deploy.engines import engine_named
from atoll.deploy.marks import MARK, end_marked
from atoll.deploy.settings import site_environment
from atoll.errors import AtollError
from atoll.files import write_json

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?")


def make_kits(out: Path, engine: Engine, server: str, sites: Sequence[str]) -> None:
    """A folder for the server, one for the operator, and one for each site."""
    host, colon, port = server.rpartition(":")
    if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
        raise AtollError(f"'{server}' is no address; write --server as HOST:PORT.")
    for site in sites:
        if not _NAME.fullmatch(site) or len(site) > 60:
            raise AtollError(
                f"'{site}' can't be a site's name; use letters, digits, '-' and '_', at most 60."
            )
    engine.require()
    engine.make_kits(out, host, int(port), sites)
    for kit in (out / "server", *(out / f"site-{site}" for site in sites)):
        if not (kit / "atoll.json").is_file():
            name = kit.name.removeprefix("site-")
            write_json(kit / "atoll.json", {"engine": engine.name, "name": name})
    order = json.loads((out / "server" / "atoll.json").read_text()).get("sites", [])
    order += [site for site in sites if site not in order]
    write_json(out / "server" / "atoll.json", {"engine": engine.name, "sites": order})


def engine_of(kit: Path) -> Engine:
    return engine_named(str(_facts(kit)["engine"]))


def sites_of(kits: Path) -> tuple[str, ...]:
    """The sites in the order of their client numbers."""
    return tuple(_facts(kits / "server")["sites"])


def run_client(data: Path, kit: Path, state: Path) -> int:
    """A site's process, in the foreground, until a signal ends it. Returns its exit code."""
    facts = _facts(kit)
    load_party(data)  # what is wrong with the data is said here, where it can be mended
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    state.chmod(0o700)
    command, env = engine_of(kit).client(kit, facts["name"])
    mark = secrets.token_hex(16)
    env = env | site_environment(data, state) | {MARK: mark}
    process = subprocess.Popen(command, env=env, start_new_session=True)

    def end(*_: object) -> None:
        end_marked({mark}, grace=3.0)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    try:
        return process.wait()
    finally:
        end()


def _facts(kit: Path) -> dict[str, str]:
    try:
        facts: dict[str, str] = json.loads((kit / "atoll.json").read_text())
        return facts
    except (OSError, ValueError):
        raise AtollError(f"'{kit}' is no kit; make one with: atoll keys") from None
