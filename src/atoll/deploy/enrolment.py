"""A site makes its own keys: what it asks of the authority, what that signs, what it installs.

| step | where | makes |
|---|---|---|
| request | site | its keys, which never leave it, and ``NAME.request``: their public halves |
| sign | authority | a place on the roster, the engine's certificate, and ``NAME.answer`` |
| install | site | the rest of its kit |

Neither file is secret, but both must be the true ones: each command prints a fingerprint, which the
two sides compare by another way than the file's. A request is signed by the site's own key, so that
nobody asks for a place with keys that are another's; an answer by the authority's.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from atoll.deploy.engine import Engine
from atoll.deploy.engines import engine_named
from atoll.deploy.envelope import Forged, is_signed
from atoll.deploy.keyring import (
    AUTHORITY_KEY,
    AUTHORITY_PUBLIC,
    ROSTER,
    SIGNING_KEY,
    authority_in,
    current_roster,
    new_site_keys,
    public,
    publish,
    signing_key,
)
from atoll.deploy.kits import (
    checked_address,
    checked_name,
    facts_of,
    found,
    founded,
    refuse_alike,
    refuse_host_as_name,
)
from atoll.deploy.roster import Roster, SiteKeys, key_of, keys_on, read_roster
from atoll.errors import AtollError
from atoll.files import PRIVATE, folder_whole, for_its_owner, write_bytes, write_json, write_text

REQUEST, ANSWER = b"atoll request for keys\0", b"atoll answer to a request\0"
# What no honest request or answer exceeds.
_LARGEST = 2**22


class Request(NamedTuple):
    """What a site asks to be enrolled with; ``engine_part`` is public, as the engine has it."""

    name: str
    engine: str
    keys: SiteKeys
    engine_part: str


def make_request(out: Path, engine: Engine, site: str) -> tuple[Path, str]:
    """Make a site's keys in ``site-NAME``, and the request beside it: its file and its print."""
    checked_name(site)
    engine.require()
    kit, file = out / f"site-{site}", out / f"{site}.request"
    if kit.exists():
        raise AtollError(f"'{kit}' has keys already; name another folder with --out, or remove it.")
    with for_its_owner(), folder_whole(kit) as part:
        keys = new_site_keys(part)
        shown = engine.request(part, site)
        write_json(part / "atoll.json", {"engine": engine.name, "name": site}, PRIVATE)
        key = signing_key(part / SIGNING_KEY)
    asked = {"name": site, "engine": engine.name, "keys": keys._asdict(), "engine_part": shown}
    content = as_signed(key, REQUEST, asked)
    write_bytes(file, content)
    return file, fingerprint(content)


def read_request(file: Path) -> tuple[Request, str]:
    """A request that its own key has signed, and its print."""
    content, line, text = parts_of(file)
    table = table_of(text, file)
    try:
        keys = SiteKeys(str(table["keys"]["signs"]), str(table["keys"]["opens"]))
        asked = Request(str(table["name"]), str(table["engine"]), keys, str(table["engine_part"]))
        signs, _ = (key_of(digits) for digits in keys)
    except (KeyError, TypeError, ValueError):
        raise damaged(file) from None
    if not is_signed(signs, line, REQUEST + text):
        raise AtollError(
            f"'{file}' is not signed by the key that it names; have the site make it anew."
        )
    checked_name(asked.name)
    return asked, fingerprint(content)


def sign_request(out: Path, file: Path, server: str = "", renew: str = "") -> tuple[Path, str, str]:
    """Enrol a site with the keys of its request; the answer's file, and the prints of the request
    and of the authority. The authority is made first if there is none, for a ``server``."""
    asked, printed = read_request(file)
    engine = engine_named(asked.engine)
    engine.require()
    if not (out / "authority" / AUTHORITY_KEY).is_file():
        found(out, engine, server)
    before, address = founded(out)
    if before.name != engine.name or server not in ("", address):
        raise AtollError(
            f"'{file}' is for {engine.name}; the federation in '{out}' is {before.name} at "
            f"{address}."
        )
    refuse_host_as_name(asked.name, address)
    roster = current_roster(out)
    refuse_alike(asked.name, roster.sites)
    _refuse_taken(roster, asked, renew)
    with for_its_owner():
        given = engine.sign(out, asked.name, asked.engine_part)
        _forget_older_keys(out, asked)
        publish(out, roster.with_site(asked.name, asked.keys))
        answer = {
            "name": asked.name,
            "engine": engine.name,
            "server": address,
            "authority": authority_in(out / "authority").hex(),
            "roster": (out / "authority" / ROSTER).read_text(),
            "given": given,
        }
        key = signing_key(out / "authority" / AUTHORITY_KEY)
        made = out / f"{asked.name}.answer"
        write_bytes(made, as_signed(key, ANSWER, answer), PRIVATE)
    return made, printed, fingerprint(authority_in(out / "authority"))


def install_answer(out: Path, file: Path) -> tuple[Path, str]:
    """Complete a site's kit with the authority's answer: the kit, and the authority's print."""
    _, line, text = parts_of(file)
    answer = table_of(text, file)
    checked_name(str(answer.get("name")))
    kit = out / f"site-{answer['name']}"
    facts = facts_of(kit)
    try:
        authority = bytes.fromhex(answer["authority"])
        server, roster = str(answer["server"]), str(answer["roster"]).encode()
        given = {str(name): str(value) for name, value in answer["given"].items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise damaged(file) from None
    if not is_signed(authority, line, ANSWER + text):
        raise AtollError(f"'{file}' is not signed by the authority that it names; get it anew.")
    own = roster_of(roster, authority, file).sites.get(facts["name"])
    mine = public(signing_key(kit / SIGNING_KEY))
    if answer.get("engine") != facts["engine"] or own is None or own.signs != mine:
        raise AtollError(
            f"'{file}' is no answer to this kit's request; install the one for '{facts['name']}', "
            f"and send the newest request."
        )
    refuse_another_authority(kit, authority, file)
    host, port = checked_address(server)
    with for_its_owner():
        engine_named(facts["engine"]).install(kit, facts["name"], host, port, given)
        write_text(kit / AUTHORITY_PUBLIC, f"{authority.hex()}\n", PRIVATE)
        write_bytes(kit / ROSTER, roster, PRIVATE)
    return kit, fingerprint(authority)


def refuse_another_authority(kit: Path, authority: bytes, file: Path) -> None:
    """A complete kit stays with its authority: an answer of somebody else's that comes later
    would hand the site over before anybody had compared fingerprints."""
    if (kit / AUTHORITY_PUBLIC).exists() and authority_in(kit) != authority:
        raise AtollError(
            f"'{file}' is of another authority than the one that '{kit}' believes; if that one's "
            f"fingerprint was false, or to change over, remove '{kit}' and make a new request."
        )


def fingerprint(content: bytes) -> str:
    """A SHA-256 as people read it to each other: its first sixteen bytes."""
    digits = hashlib.sha256(content).hexdigest()[:32]
    return " ".join(digits[i : i + 4] for i in range(0, len(digits), 4))


def _refuse_taken(roster: Roster, asked: Request, renew: str) -> None:
    if renew and renew != asked.name:
        raise AtollError(f"the request is of '{asked.name}', not of '{renew}'; check which it is.")
    if asked.keys.signs in roster.revoked:
        raise AtollError(f"the key of '{asked.name}' was revoked; have it make a new request.")
    if asked.name in roster.sites and not renew:
        raise AtollError(
            f"{asked.name} has keys already; to put these in their place: atoll keys --renew "
            f"{asked.name} --sign FILE"
        )
    if set(asked.keys) & set(roster.sites.get(asked.name, ())):
        raise AtollError(
            f"the request has keys that '{asked.name}' has already, which would be renewed in name "
            f"only; have it make a new request."
        )
    if set(asked.keys) & keys_on(roster):
        raise AtollError(f"a key of '{asked.name}' is another's; have it make a new request.")


def _forget_older_keys(out: Path, asked: Request) -> None:
    """Of keys that were made for the site here, none stays; the kit that asks may lie here too."""
    kit = out / f"site-{asked.name}"
    with suppress(AtollError):  # it holds no key
        if public(signing_key(kit / SIGNING_KEY)) == asked.keys.signs:
            return
    shutil.rmtree(kit, ignore_errors=True)


def roster_of(content: bytes, authority: bytes, file: Path) -> Roster:
    try:
        return read_roster(content, authority)
    except (Forged, ValueError, KeyError, TypeError):
        raise damaged(file) from None


def as_signed(key: Any, tag: bytes, table: dict[str, Any]) -> bytes:
    text = json.dumps(table, indent=1).encode() + b"\n"
    signature: bytes = key.sign(tag + text)
    return signature.hex().encode() + b"\n" + text


def parts_of(file: Path) -> tuple[bytes, bytes, bytes]:
    """A file's content, its signature, and what that is over."""
    try:
        if file.stat().st_size > _LARGEST:
            raise damaged(file)
        content = file.read_bytes()
    except OSError:
        raise AtollError(f"there is no file '{file}'; name the one that was sent.") from None
    line, _, text = content.partition(b"\n")
    try:
        return content, bytes.fromhex(line.decode()), text
    except ValueError:
        raise damaged(file) from None


def table_of(text: bytes, file: Path) -> dict[str, Any]:
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        raise damaged(file) from None
    if not isinstance(table, dict):
        raise damaged(file)
    return table


def damaged(file: Path) -> AtollError:
    return AtollError(f"'{file}' is no request or answer of atoll keys, or damaged; get it anew.")
