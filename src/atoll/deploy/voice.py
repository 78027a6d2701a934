"""The coordinator's voice: it signs every request, and hears only what sites have signed."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from atoll.deploy.envelope import Forged, Label, opened, sealed
from atoll.deploy.keyring import (
    COORDINATOR_KEY,
    ROSTER,
    authority_in,
    public,
    roster_in,
    signing_key,
)
from atoll.deploy.roster import LARGEST_ROSTER, Roster, read_roster
from atoll.errors import AtollError
from atoll.federation.codec import Request
from atoll.files import PRIVATE, write_bytes

_SIZE = struct.Struct(">I")
# The first words to a site, which bring it the roster that the words after them are held against.
_FIRST = frozenset({"ping", "hello"})


@dataclass(frozen=True)
class Voice:
    """``roster`` says whom it hears; ``signed_roster`` is the same as the authority signed it."""

    key: Ed25519PrivateKey
    roster: Roster
    signed_roster: bytes

    def asks(self, site: str, request: Request) -> bytes:
        """A request as it travels."""
        label = Label(request.run, site, request.attempt, request.id)
        first = sized(self.signed_roster if request.ask in _FIRST else b"")
        return sealed(self.key, "request", label, request.encode(), first)

    def knows(self, site: str) -> bool:
        """Whether a site is on the roster; one that was revoked is not."""
        return site in self.roster.sites

    def hears(self, site: str, request: Request, reply: bytes) -> bytes:
        """The content of a site's answer to this very request; :class:`Forged` if it is not."""
        key = bytes.fromhex(self.roster.sites[site].signs)
        label, content = opened(key, "answer", reply)
        if label != Label(request.run, site, request.attempt, request.id):
            raise Forged("it answers another request")
        return content


def voice_of(kit: Path, runs: Path | None = None) -> Voice:
    """The voice that a server's kit gives its coordinator.

    ``runs`` is the server's folder of runs, which remembers the newest roster that was in force
    there: an older kit, of a backup say, would have it hear again whom the authority has revoked.
    """
    key = signing_key(kit / COORDINATOR_KEY)
    roster, content = roster_in(kit)
    if roster.coordinator != public(key):
        raise AtollError(
            f"the coordinator's key in '{kit}' is not the one on the roster; put the newest "
            f"'coordinator.key' and 'roster.signed' there."
        )
    if runs is not None:
        _refuse_older(runs / ROSTER, roster, content, kit)
    return Voice(key, roster, content)


def _refuse_older(file: Path, roster: Roster, content: bytes, kit: Path) -> None:
    newest = 0
    with suppress(OSError, Forged):  # none yet, or of another authority
        newest = read_roster(file.read_bytes(), authority_in(kit)).serial
    if newest > roster.serial:
        raise AtollError(
            f"the roster in '{kit}' is number {roster.serial}, and number {newest} was in force "
            f"here; put the newest '{ROSTER}' into the kit (this server's copy is '{file}')."
        )
    if newest < roster.serial and file.parent.is_dir():
        write_bytes(file, content, PRIVATE)


def sized(roster: bytes) -> bytes:
    """A roster, or nothing, as it goes before an envelope."""
    return _SIZE.pack(len(roster)) + roster


def parted(message: bytes) -> tuple[bytes, memoryview]:
    """The roster that goes before an envelope, or nothing, and the envelope."""
    if not isinstance(message, bytes | bytearray | memoryview) or len(message) < _SIZE.size:
        raise Forged("it is in no envelope")
    (size,) = _SIZE.unpack_from(message)
    if size > LARGEST_ROSTER or len(message) < _SIZE.size + size:
        raise Forged("it is in no envelope")
    end = _SIZE.size + size
    return bytes(message[_SIZE.size : end]), memoryview(message)[end:]
