"""A server makes its own keys: as a site does (:mod:`atoll.deploy.enrolment`), under the name
``coordinator``.

It makes the coordinator's key, the engine's server key and its operator's. What the authority made
for a server when it was founded is thrown away when it signs these, so that no secret of the server
is anywhere else; and the coordinator's key of before is revoked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from atoll.deploy.engine import Engine
from atoll.deploy.engines import engine_named
from atoll.deploy.enrolment import (
    ANSWER,
    REQUEST,
    as_signed,
    damaged,
    fingerprint,
    parts_of,
    refuse_another_authority,
    roster_of,
    table_of,
)
from atoll.deploy.envelope import is_signed
from atoll.deploy.keyring import (
    AUTHORITY_KEY,
    AUTHORITY_PUBLIC,
    COORDINATOR,
    COORDINATOR_KEY,
    ROSTER,
    authority_in,
    current_roster,
    new_coordinator_key,
    public,
    publish,
    signing_key,
)
from atoll.deploy.kits import SIDES, checked_address, facts_of, found, founded
from atoll.deploy.roster import key_of, keys_on
from atoll.errors import AtollError
from atoll.files import PRIVATE, folder_whole, for_its_owner, write_bytes, write_json, write_text


def make_server_request(out: Path, engine: Engine, server: str) -> tuple[Path, str]:
    """Make a server's and its operator's keys, and the request beside them: its file and print."""
    host, _ = checked_address(server)
    engine.require()
    for side in SIDES:
        if (out / side).exists():
            raise AtollError(
                f"'{out / side}' is there already; name another folder with --out, or remove it."
            )
    asked: dict[str, Any] = {"name": COORDINATOR, "engine": engine.name, "address": server}
    with for_its_owner():
        for side in SIDES:
            with folder_whole(out / side) as part:
                asked[side] = engine.request_side(part, side, host)
                facts = {"engine": engine.name, "name": side}
                write_json(part / "atoll.json", facts, PRIVATE)
                if side == "server":
                    asked["signs"] = new_coordinator_key(part)
        key = signing_key(out / "server" / COORDINATOR_KEY)
    content = as_signed(key, REQUEST, asked)
    write_bytes(out / f"{COORDINATOR}.request", content)
    return out / f"{COORDINATOR}.request", fingerprint(content)


def is_of_a_server(file: Path) -> bool:
    """Whether a request or an answer is a server's."""
    return table_of(parts_of(file)[2], file).get("name") == COORDINATOR


def sign_server_request(
    out: Path, file: Path, server: str = "", renew: str = ""
) -> tuple[Path, str, str]:
    """Have a server's own keys count; the answer's file, and the prints of the request and of the
    authority, which is made first if there is none."""
    content, line, text = parts_of(file)
    asked = table_of(text, file)
    try:
        key, engine = key_of(asked["signs"]), engine_named(str(asked["engine"]))
        address, requests = str(asked["address"]), {side: str(asked[side]) for side in SIDES}
    except (KeyError, TypeError, ValueError):
        raise damaged(file) from None
    if not is_signed(key, line, REQUEST + text):
        raise AtollError(f"'{file}' is not signed by the key that it names; have it made anew.")
    _refuse_the_server_s_own_folder(out, asked["signs"])
    host, _ = checked_address(address)
    engine.require()
    if not (out / "authority" / AUTHORITY_KEY).is_file():
        found(out, engine, server or address)
    before, known = founded(out)
    if (before.name, known) != (engine.name, address) or server not in ("", address):
        raise AtollError(
            f"'{file}' is for {engine.name} at {address}; the federation in '{out}' is "
            f"{before.name} at {known}."
        )
    roster = current_roster(out)
    if asked["signs"] in {*roster.revoked, *keys_on(roster)}:
        raise AtollError(
            "its key was revoked, or is in use already; have the server make a new request."
        )
    if not (out / "server").is_dir() and renew != COORDINATOR:
        raise AtollError(
            f"the server has keys already; to put these in their place: atoll keys --renew "
            f"{COORDINATOR} --sign FILE"
        )
    with for_its_owner():
        given = {side: engine.sign_side(out, side, host, requests[side]) for side in SIDES}
        for side in SIDES:
            engine.forget_side(out, side)
        publish(out, roster.with_coordinator(asked["signs"], COORDINATOR))
        answer = {
            "name": COORDINATOR,
            "engine": engine.name,
            "address": address,
            "authority": authority_in(out / "authority").hex(),
            "roster": (out / "authority" / ROSTER).read_text(),
            "given": given,
        }
        signs = signing_key(out / "authority" / AUTHORITY_KEY)
        made = out / f"{COORDINATOR}.answer"
        write_bytes(made, as_signed(signs, ANSWER, answer), PRIVATE)
    return made, fingerprint(content), fingerprint(authority_in(out / "authority"))


def _refuse_the_server_s_own_folder(out: Path, key: str) -> None:
    """What is in the authority's folder for a server is deleted, which must not be these keys."""
    file = out / "server" / COORDINATOR_KEY
    if file.is_file() and public(signing_key(file)) == key:
        raise AtollError(
            f"'{out}' has the server's own keys; sign in another folder, which is the authority's "
            f"alone: --out."
        )


def install_server_answer(out: Path, file: Path) -> tuple[Path, str]:
    """Complete the server's and its operator's kits; the server's, and the authority's print."""
    _, line, text = parts_of(file)
    answer = table_of(text, file)
    kit = out / "server"
    engine = engine_named(facts_of(kit)["engine"])
    try:
        authority = bytes.fromhex(answer["authority"])
        roster, address = str(answer["roster"]).encode(), str(answer["address"])
        given = {s: {str(n): str(v) for n, v in answer["given"][s].items()} for s in SIDES}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise damaged(file) from None
    if not is_signed(authority, line, ANSWER + text):
        raise AtollError(f"'{file}' is not signed by the authority that it names; get it anew.")
    mine = public(signing_key(kit / COORDINATOR_KEY))
    if roster_of(roster, authority, file).coordinator != mine or answer["engine"] != engine.name:
        raise AtollError(f"'{file}' is no answer to this kit's request; send the newest request.")
    refuse_another_authority(kit, authority, file)
    host, port = checked_address(address)
    with for_its_owner():
        for side in SIDES:
            engine.install_side(out / side, side, host, port, given[side])
        write_text(kit / AUTHORITY_PUBLIC, f"{authority.hex()}\n", PRIVATE)
        write_bytes(kit / ROSTER, roster, PRIVATE)
    return kit, fingerprint(authority)
