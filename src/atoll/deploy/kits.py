"""What each side of a federation needs, whatever the engine; and a site's own process."""

from __future__ import annotations

import json
import logging
import re
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from atoll.data.parties import load_party
from atoll.deploy.admission import Admission
from atoll.deploy.engine import Engine
from atoll.deploy.engines import engine_named
from atoll.deploy.identity import identity_of
from atoll.deploy.keyring import (
    AUTHORITY_KEY,
    COORDINATOR,
    current_roster,
    enrol,
    renew_coordinator,
    revoke,
    roster_in,
)
from atoll.deploy.marks import MARK, end_marked
from atoll.deploy.matching import Limits
from atoll.deploy.policy.default import policy_at
from atoll.deploy.settings import FEWEST, LARGEST, site_environment
from atoll.errors import AtollError, unknown
from atoll.files import for_its_owner, hold_until_the_end, write_json

log = logging.getLogger("atoll")
SIDES = ("server", "operator")
_FEDERATION = "federation.json"
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?")
# What an address may be made of: names of hosts, and numbers of both kinds. It comes with requests,
# too, and is the name of files that engines write.
_HOST = re.compile(r"\[?[A-Za-z0-9:]([A-Za-z0-9.:_-]*[A-Za-z0-9:])?\]?")
_PORT = re.compile(r"[0-9]{1,5}")


def make_kits(out: Path, engine: Engine, server: str, sites: Sequence[str]) -> None:
    """A folder for the server, one for the operator, and one for each site.

    Where sites are added, ``server`` may be left empty: it is the one that the others dial.
    """
    if (out / "authority" / _FEDERATION).is_file():
        before, address = founded(out)
        if before.name != engine.name or server not in ("", address):
            raise AtollError(
                f"the kits in '{out}' are for {before.name} and a server at {address}; add sites "
                f"with the same, or name another folder with --out."
            )
        server = address
    for site in sites:
        checked_name(site)
        refuse_host_as_name(site, server)
        refuse_alike(site, (*sites, *_enrolled(out)))
    checked_address(server)
    handed_out = [s for s in sites if s in _enrolled(out) and not (out / f"site-{s}").is_dir()]
    if handed_out:
        raise AtollError(
            f"{', '.join(handed_out)} has a kit already, which is not here any more; make one that "
            f"takes its place with: atoll keys --renew {handed_out[0]}"
        )
    engine.require()
    _make(out, engine, server, sites)


def found(out: Path, engine: Engine, server: str) -> None:
    """An authority with a server and an operator, for sites that make their own keys."""
    checked_address(server)
    engine.require()
    _make(out, engine, server, [])


def checked_name(site: str) -> None:
    if not _NAME.fullmatch(site) or len(site) > 60 or site == COORDINATOR:
        raise AtollError(
            f"'{site}' can't be a site's name; use letters, digits, '-' and '_', at most 60, and "
            f"not '{COORDINATOR}'."
        )


def refuse_alike(site: str, others: Iterable[str]) -> None:
    """People and some file systems take names for one that differ in capitals only."""
    for other in others:
        if other != site and other.lower() == site.lower():
            raise AtollError(f"'{site}' is too like '{other}'; call the site something else.")


def checked_address(server: str) -> tuple[str, int]:
    host, colon, port = server.rpartition(":")
    right = colon and len(host) < 254 and _HOST.fullmatch(host) and _PORT.fullmatch(port)
    if not right or not 0 < int(port) < 65536:
        raise AtollError(f"'{server}' is no address; write --server as HOST:PORT.")
    return host, int(port)


def refuse_host_as_name(site: str, server: str) -> None:
    """A certificate bears a site's name as if it were a host's: with the server's own, a site could
    pass for the server at others."""
    host, _ = checked_address(server)
    if site.lower() in (host.lower(), "server"):
        raise AtollError(f"'{site}' is the server's name; call the site something else.")


def _make(
    out: Path, engine: Engine, server: str, sites: Sequence[str], renewed: bool = False
) -> None:
    host, port = checked_address(server)
    with for_its_owner():
        begun = (out / "authority" / AUTHORITY_KEY).is_file()
        elsewhere = [out / side for side in SIDES if begun and not (out / side).is_dir()]
        engine.make_kits(out, host, port, sites)
        for kit in elsewhere:  # the server has its own, and needs no second one
            shutil.rmtree(kit)
        enrol(out, list(sites), renewed)
        write_json(out / "authority" / _FEDERATION, {"engine": engine.name, "server": server})
        for kit in (out / "server", *(out / f"site-{site}" for site in sites)):
            if kit.is_dir() and not (kit / "atoll.json").is_file():
                name = kit.name.removeprefix("site-")
                write_json(kit / "atoll.json", {"engine": engine.name, "name": name})


def revoke_site(out: Path, name: str) -> None:
    """Nothing that a site says counts any more, once the server has the new roster."""
    revoke(out, name)
    founded(out)[0].forget(out, name)


def renew_keys(out: Path, name: str) -> None:
    """A new kit for a site in the place of its old one, or a new key for the coordinator."""
    engine, server = founded(out)
    if name == COORDINATOR:
        with for_its_owner():
            renew_coordinator(out)
        return
    roster = current_roster(out)
    if name not in roster.sites and name not in roster.revoked.values():
        raise unknown("site", name, [*roster.sites, COORDINATOR])
    engine.require()
    engine.forget(out, name)
    _make(out, engine, server, [name], renewed=True)


def founded(out: Path) -> tuple[Engine, str]:
    """Engine and server's address of a folder that ``atoll keys`` has made."""
    try:
        facts = json.loads((out / "authority" / _FEDERATION).read_text())
        return engine_named(str(facts["engine"])), str(facts["server"])
    except (OSError, ValueError, KeyError):
        raise AtollError(
            f"'{out}' is no folder that atoll keys made; name it with --out."
        ) from None


def _enrolled(out: Path) -> tuple[str, ...]:
    made = (out / "authority" / AUTHORITY_KEY).is_file()
    return tuple(current_roster(out).sites) if made else ()


def engine_of(kit: Path) -> Engine:
    return engine_named(str(facts_of(kit)["engine"]))


def sites_of(kits: Path) -> tuple[str, ...]:
    """The sites in the order of their client numbers."""
    return tuple(roster_in(kits / "server")[0].sites)


def run_client(
    data: Path,
    kit: Path,
    state: Path,
    admits: Sequence[str] = (),
    limits: Limits | None = None,
    policy: Path | None = None,
) -> int:
    """A site's process, in the foreground, until a signal ends it. Returns its exit code.

    Without a ``policy`` it is the kit's ``policy.toml``, or the built-in one if there is none.
    """
    limits = limits or Limits()
    facts = facts_of(kit)
    if policy is None and (kit / "policy.toml").is_file():
        policy = kit / "policy.toml"
    rules = policy_at(policy)
    log.warning("takes part under %s", rules.name)
    for plugin, digest in Admission((*admits, *rules.code.admit)).check().items():
        log.warning("admits the plug-in %s (SHA-256 %s)", plugin, digest or "of its package")
    load_party(data)  # what is wrong with the data is said here, where it can be mended
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    state.chmod(0o700)
    hold_until_the_end(state)
    if not identity_of(kit, state).on_roster:
        raise AtollError(
            f"the key in '{kit}' was revoked; ask the federation's authority for a new kit."
        )
    command, env = engine_of(kit).client(kit, facts["name"])
    mark = secrets.token_hex(16)
    env |= site_environment(data, state, kit, Admission(admits).addresses, policy) | {MARK: mark}
    env |= {FEWEST: str(limits.fewest_shared), LARGEST: str(limits.largest_list)}
    process = subprocess.Popen(command, env=env, start_new_session=True, umask=0o077)

    def end(*_: object) -> None:
        end_marked({mark}, grace=3.0)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    try:
        return process.wait()
    finally:
        end()


def facts_of(kit: Path) -> dict[str, str]:
    try:
        facts: dict[str, str] = json.loads((kit / "atoll.json").read_text())
        return facts
    except (OSError, ValueError):
        raise AtollError(f"'{kit}' is no kit; make one with: atoll keys") from None
