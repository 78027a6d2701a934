"""The roster: whose keys count, signed by the authority; whoever is not on it has no say.

A text of two parts: a line with the signature in hexadecimal digits, then JSON. The ``serial`` only
goes up, and nobody goes back to an older roster: so the newest is also the list of what is revoked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from atoll.deploy.envelope import Forged, is_signed

# What no honest roster exceeds.
LARGEST_ROSTER = 2**22
_TAG = b"atoll roster\0"


class SiteKeys(NamedTuple):
    """A site's public keys, in hexadecimal digits: what it signs with, and what it opens with."""

    signs: str
    opens: str


def key_of(digits: str) -> bytes:
    """A public key that somebody sent. Keys are compared by their digits, so one key has one form:
    with capitals or spaces in it a revoked key would pass for a new one."""
    key = bytes.fromhex(digits)
    if len(key) != 32 or key.hex() != digits:
        raise ValueError("no key of 32 bytes in small hexadecimal digits")
    return key


@dataclass(frozen=True)
class Roster:
    """The keys that count from ``serial`` on, and those that no longer do, with whose they were."""

    serial: int
    coordinator: str
    sites: Mapping[str, SiteKeys] = field(default_factory=dict)
    revoked: Mapping[str, str] = field(default_factory=dict)

    def with_site(self, name: str, keys: SiteKeys) -> Roster:
        """One more site, or new keys of one that there is; those before them are revoked."""
        revoked = self.without(name).revoked if name in self.sites else self.revoked
        sites = {**self.sites, name: SiteKeys(*keys)}
        return replace(self, serial=self.serial + 1, sites=sites, revoked=revoked)

    def without(self, name: str) -> Roster:
        """A site revoked."""
        others = {site: keys for site, keys in self.sites.items() if site != name}
        revoked = {**self.revoked, self.sites[name].signs: name}
        return replace(self, serial=self.serial + 1, sites=others, revoked=revoked)

    def with_coordinator(self, key: str, name: str) -> Roster:
        """A new key of the coordinator; the one before it is revoked."""
        revoked = {**self.revoked, self.coordinator: name}
        return replace(self, serial=self.serial + 1, coordinator=key, revoked=revoked)

    def signed(self, authority: Ed25519PrivateKey) -> bytes:
        table = {
            "serial": self.serial,
            "coordinator": self.coordinator,
            "sites": {name: keys._asdict() for name, keys in self.sites.items()},
            "revoked": dict(self.revoked),
        }
        text = json.dumps(table, indent=1).encode() + b"\n"
        return authority.sign(_TAG + text).hex().encode() + b"\n" + text


def keys_on(roster: Roster) -> set[str]:
    """Every public key that counts, whosever it is."""
    return {roster.coordinator, *(key for keys in roster.sites.values() for key in keys)}


def read_roster(content: bytes, authority: bytes) -> Roster:
    """A roster that the owner of the ``authority`` key has signed; :class:`Forged` if not."""
    if len(content) > LARGEST_ROSTER:
        raise Forged("a roster larger than any")
    line, _, text = content.partition(b"\n")
    try:
        signature = bytes.fromhex(line.decode())
    except ValueError:
        signature = b""
    # One roster has one form: the digits in small letters.
    if signature.hex().encode() != line or not is_signed(authority, signature, _TAG + text):
        raise Forged("a roster that the authority has not signed")
    table = json.loads(text)
    return Roster(
        int(table["serial"]),
        str(table["coordinator"]),
        {str(name): SiteKeys(**keys) for name, keys in table["sites"].items()},
        {str(key): str(name) for key, name in table["revoked"].items()},
    )
