"""Who a site is: its keys, and the newest roster that it has seen."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from atoll.deploy.envelope import Forged
from atoll.deploy.keyring import (
    OPENING_KEY,
    ROSTER,
    SIGNING_KEY,
    authority_in,
    opening_key,
    public,
    roster_in,
    signing_key,
)
from atoll.deploy.roster import Roster, SiteKeys, read_roster
from atoll.errors import AtollError
from atoll.files import PRIVATE, write_bytes

log = logging.getLogger("atoll")


@dataclass
class Identity:
    """``authority`` is the public key that rosters are signed with; ``state`` keeps the newest."""

    name: str
    signing: Ed25519PrivateKey
    opening: X25519PrivateKey
    authority: bytes
    roster: Roster
    state: Path

    @property
    def coordinator(self) -> bytes:
        return bytes.fromhex(self.roster.coordinator)

    @property
    def on_roster(self) -> bool:
        """Whether the roster has this site with the key that it holds."""
        keys = self.roster.sites.get(self.name)
        return keys is not None and keys.signs == public(self.signing)

    def peer(self, name: str) -> SiteKeys:
        """Another site's keys; it may not be this one, nor anybody who is not on the roster."""
        if name == self.name or name not in self.roster.sites:
            raise Forged("it is of nobody on the roster")
        return self.roster.sites[name]

    def learn(self, content: bytes) -> None:
        """Take over a newer roster of the authority's; an older one changes nothing."""
        roster = read_roster(content, self.authority)
        if roster.serial > self.roster.serial:
            write_bytes(self.state / ROSTER, content, PRIVATE)
            self.roster = roster
            log.warning("the authority's roster %d is in force.", roster.serial)


def identity_of(kit: Path, state: Path) -> Identity:
    """A site's identity from its kit, with the roster of its state folder where that is newer."""
    roster, _ = roster_in(kit)
    authority = authority_in(kit)
    try:
        name = str(json.loads((kit / "atoll.json").read_text())["name"])
    except (OSError, ValueError, KeyError):
        raise AtollError(f"'{kit}' is no site's kit; make one with: atoll keys") from None
    signing, opening = signing_key(kit / SIGNING_KEY), opening_key(kit / OPENING_KEY)
    identity = Identity(name, signing, opening, authority, roster, state)
    if (state / ROSTER).is_file():
        with suppress(Forged):  # of another federation, which this folder was used for before
            identity.learn((state / ROSTER).read_bytes())
    return identity
