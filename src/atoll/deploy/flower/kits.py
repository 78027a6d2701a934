"""What each side of a Flower federation needs: certificates, keys and addresses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from atoll.deploy.operator import OutOfTouch
from atoll.deploy.processes import free_port
from atoll.errors import AtollError
from atoll.files import PRIVATE, folder_whole, write_json, write_text

PUBLIC_KEYS, REGISTERED = "sites", "registered.json"
_CONTROL = "control.json"
_SECRET, _PUBLIC = "site.key", "site.pub"


def make_kits(out: Path, server: str, port: int, sites: Sequence[str]) -> None:
    """See :meth:`atoll.deploy.engine.Engine.make_kits`. A site's kit holds its secret key."""
    from atoll.deploy.flower.certificates import (
        make_authority,
        make_server_certificate,
        make_site_key,
    )

    authority = out / "authority"
    if not (authority / "ca.pem").is_file():
        make_authority(authority)
    for folder in ("server", "operator", *(f"site-{site}" for site in sites)):
        kit = out / folder
        if kit.exists():
            continue
        with folder_whole(kit) as part:
            shutil.copy(authority / "ca.pem", part / "ca.pem")
            write_json(part / "kit.json", {"server": server, "port": port, "engine": "flower"})
    if not (out / "server" / "server.pem").is_file():
        make_server_certificate(authority, out / "server", server)
    for site in sites:
        secret, public = out / f"site-{site}" / _SECRET, public_key(out / "operator", site)
        if not (secret.is_file() and public.is_file()):
            make_site_key(secret, public)


def request(kit: Path) -> str:
    """See :meth:`atoll.deploy.engine.Engine.request`."""
    from atoll.deploy.flower.certificates import make_site_key

    make_site_key(kit / _SECRET, kit / _PUBLIC)
    return (kit / _PUBLIC).read_text()


def sign(out: Path, site: str, asked: str) -> dict[str, str]:
    """See :meth:`atoll.deploy.engine.Engine.sign`; the operator registers the site's key."""
    from atoll.deploy.flower.certificates import checked_site_key

    shown, operator = checked_site_key(asked, site), out / "operator"
    for other in (operator / PUBLIC_KEYS).glob("*.pub"):
        if other.stem != site and other.read_text() == shown:
            raise AtollError(f"a key of '{site}' is another's; have it make a new request.")
    forget(operator, site)
    write_text(public_key(operator, site), shown, PRIVATE)
    return {"root": (out / "authority" / "ca.pem").read_text()}


def install(kit: Path, server: str, port: int, given: Mapping[str, str]) -> None:
    """See :meth:`atoll.deploy.engine.Engine.install`."""
    if "root" not in given:
        raise AtollError("the answer has no certificate; get it anew.")
    write_text(kit / "ca.pem", given["root"], PRIVATE)
    write_json(kit / "kit.json", {"server": server, "port": port, "engine": "flower"}, PRIVATE)


def request_side(kit: Path, side: str) -> str:
    """See :meth:`atoll.deploy.engine.Engine.request_side`. An operator has no key of Flower's."""
    from atoll.deploy.flower.certificates import make_server_request

    return make_server_request(kit / "server.key") if side == "server" else ""


def sign_side(out: Path, side: str, server: str, asked: str) -> dict[str, str]:
    """See :meth:`atoll.deploy.engine.Engine.sign_side`."""
    from atoll.deploy.flower.certificates import server_certificate

    authority = out / "authority"
    given = {"root": (authority / "ca.pem").read_text()}
    if side == "server":
        return given | {"certificate": server_certificate(authority, server, asked)}
    registered = sorted((out / "operator" / PUBLIC_KEYS).glob("*.pub"))
    return given | {f"{PUBLIC_KEYS}/{file.stem}": file.read_text() for file in registered}


def install_side(kit: Path, side: str, server: str, port: int, given: Mapping[str, str]) -> None:
    """See :meth:`atoll.deploy.engine.Engine.install_side`."""
    from atoll.deploy.flower.certificates import check_server_certificate, checked_site_key

    if side == "server":
        certificate = given.get("certificate", "")
        check_server_certificate(kit / "server.key", certificate)
        write_text(kit / "server.pem", certificate, PRIVATE)
    for name, shown in given.items():
        folder, _, site = name.partition("/")
        if folder == PUBLIC_KEYS and side == "operator" and Path(site).name == site:
            write_text(public_key(kit, site), checked_site_key(shown, site), PRIVATE)
    install(kit, server, port, given)


def forget(operator: Path, site: str) -> None:
    """The operator registers a site's key no more, and reckons with no SuperNode of it."""
    public_key(operator, site).unlink(missing_ok=True)
    if (operator / REGISTERED).is_file():
        known = json.loads((operator / REGISTERED).read_text())
        write_json(
            operator / REGISTERED, {name: n for name, n in known.items() if name != site}, PRIVATE
        )


def public_key(operator: Path, site: str) -> Path:
    return operator / PUBLIC_KEYS / f"{site}.pub"


def new_control_port(kit: Path) -> int:
    """Where the operator of this machine will find the server; noted in the server's kit."""
    port = free_port()
    write_json(kit / _CONTROL, {"port": port}, PRIVATE)
    return port


def control_port(operator: Path) -> int:
    """Where the server of the kit beside an operator's takes orders."""
    try:
        return int(json.loads((operator.parent / "server" / _CONTROL).read_text())["port"])
    except (OSError, ValueError, KeyError):
        raise OutOfTouch("no server has been started from the kit beside the operator's") from None


def kit_facts(kit: Path) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = json.loads((kit / "kit.json").read_text())
        return facts
    except (OSError, ValueError):
        raise AtollError(f"'{kit}' is no kit of Flower; make one with: atoll keys") from None
