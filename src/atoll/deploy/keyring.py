"""Signing keys and the roster as files of kits. Secrets are for their owner from their first byte.

| folder | holds |
|---|---|
| ``authority`` | ``authority.key``, which signs rosters and nothing else; keep it offline |
| ``server`` | ``coordinator.key``, which signs requests |
| ``site-NAME`` | ``signing.key``, which signs answers, and ``opening.key`` for what peers send it |

Each also has ``authority.pub`` and the newest roster, ``roster.signed``. No secret is in two.
"""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from atoll.deploy.envelope import Forged
from atoll.deploy.roster import Roster, SiteKeys, read_roster
from atoll.errors import AtollError, unknown
from atoll.files import PRIVATE, refuse_shared_secret, write_bytes

COORDINATOR = "coordinator"
ROSTER, AUTHORITY_KEY, AUTHORITY_PUBLIC = "roster.signed", "authority.key", "authority.pub"
COORDINATOR_KEY, SIGNING_KEY, OPENING_KEY = "coordinator.key", "signing.key", "opening.key"
Secret = Ed25519PrivateKey | X25519PrivateKey


def enrol(out: Path, sites: list[str], renewed: bool = False) -> None:
    """Keys for sites that have none yet, and a roster with them; makes the authority first.

    With ``renewed`` those that have some get new ones, in the same place of the roster.
    """
    authority = out / "authority"
    if not (authority / AUTHORITY_KEY).is_file():
        _found(out)
    roster = current_roster(out)
    for site in sites:
        if renewed or site not in roster.sites:
            roster = roster.with_site(site, new_site_keys(out / f"site-{site}"))
    publish(out, roster)


def revoke(out: Path, name: str) -> None:
    """Strike a site off the roster; its key is never accepted again."""
    roster = current_roster(out)
    if name == COORDINATOR:
        raise AtollError(
            "the coordinator can't be revoked without a successor; give it a new key with: atoll "
            "keys --renew coordinator"
        )
    if name not in roster.sites:
        raise unknown("site", name, roster.sites)
    publish(out, roster.without(name))


def renew_coordinator(out: Path) -> None:
    """A new key for the coordinator, in the server's kit; the old one is revoked."""
    roster = current_roster(out)
    key = _write(out / "server" / COORDINATOR_KEY, Ed25519PrivateKey.generate())
    publish(out, roster.with_coordinator(key, COORDINATOR))


def current_roster(out: Path) -> Roster:
    """The authority's own copy."""
    folder = out / "authority"
    if not (folder / AUTHORITY_KEY).is_file():
        raise AtollError(
            f"'{folder}' has no authority's key; name the folder that atoll keys made with --out."
        )
    return roster_in(folder)[0]


def roster_in(kit: Path) -> tuple[Roster, bytes]:
    """A kit's roster, with its signature checked, and as it is sent."""
    try:
        content = (kit / ROSTER).read_bytes()
        return read_roster(content, authority_in(kit)), content
    except Forged as problem:
        raise AtollError(f"'{kit / ROSTER}' is not to be trusted: it is {problem}.") from None
    except OSError:
        raise _no_keys(kit) from None


def authority_in(kit: Path) -> bytes:
    """The public key of the authority whose rosters a kit's owner believes."""
    try:
        return bytes.fromhex((kit / AUTHORITY_PUBLIC).read_text().strip())
    except (OSError, ValueError):
        raise _no_keys(kit) from None


def signing_key(file: Path) -> Ed25519PrivateKey:
    key = _read(file)
    if not isinstance(key, Ed25519PrivateKey):
        raise AtollError(f"'{file}' is no Ed25519 key; make a new one with: atoll keys --renew")
    return key


def opening_key(file: Path) -> X25519PrivateKey:
    key = _read(file)
    if not isinstance(key, X25519PrivateKey):
        raise AtollError(f"'{file}' is no X25519 key; make a new one with: atoll keys --renew")
    return key


def public(key: Secret) -> str:
    return key.public_key().public_bytes_raw().hex()


def publish(out: Path, roster: Roster) -> None:
    """Sign a roster and lay it into every kit that is here."""
    content = roster.signed(signing_key(out / "authority" / AUTHORITY_KEY))
    for kit in ("authority", "server", *(f"site-{site}" for site in roster.sites)):
        if (out / kit).is_dir():
            shown = (out / "authority" / AUTHORITY_PUBLIC).read_bytes()
            write_bytes(out / kit / AUTHORITY_PUBLIC, shown, PRIVATE)
            write_bytes(out / kit / ROSTER, content, PRIVATE)


def _found(out: Path) -> None:
    """An authority and a coordinator."""
    authority = Ed25519PrivateKey.generate()
    shown = _write(out / "authority" / AUTHORITY_KEY, authority)
    write_bytes(out / "authority" / AUTHORITY_PUBLIC, f"{shown}\n".encode(), PRIVATE)
    coordinator = _write(out / "server" / COORDINATOR_KEY, Ed25519PrivateKey.generate())
    first = Roster(1, coordinator).signed(authority)
    write_bytes(out / "authority" / ROSTER, first, PRIVATE)


def new_coordinator_key(kit: Path) -> str:
    """A coordinator's secret key in its kit; returns its public half."""
    return _write(kit / COORDINATOR_KEY, Ed25519PrivateKey.generate())


def new_site_keys(kit: Path) -> SiteKeys:
    """A site's two secret keys in its kit; returns their public halves."""
    signs = _write(kit / SIGNING_KEY, Ed25519PrivateKey.generate())
    return SiteKeys(signs, _write(kit / OPENING_KEY, X25519PrivateKey.generate()))


def _write(file: Path, key: Secret) -> str:
    """Keep a secret key; returns its public half."""
    form = serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    write_bytes(file, pem, PRIVATE)
    return public(key)


def _read(file: Path) -> object:
    try:
        refuse_shared_secret(file)
        return serialization.load_pem_private_key(file.read_bytes(), None)
    except (OSError, ValueError):
        raise _no_keys(file.parent) from None


def _no_keys(kit: Path) -> AtollError:
    return AtollError(
        f"'{kit}' lacks the keys that messages are signed with; make a new kit with: atoll keys"
    )
