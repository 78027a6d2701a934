"""Letters from site to site, through a server that can neither read them nor write any itself.

The sender signs what a letter says together with who it is from and for, the run, the attempt and
the turn; then encrypts both for the receiver: HPKE (RFC 9180) with X25519, HKDF-SHA256 and
ChaCha20-Poly1305.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from atoll.deploy.envelope import Forged, Label, opened, sealed
from atoll.deploy.identity import Identity

log = logging.getLogger("atoll")
_INFO = b"atoll letter"


@dataclass(frozen=True)
class Letters:
    """A site's mail of one attempt at a run."""

    identity: Identity
    run: str
    attempt: int

    def write(self, turn: str, peer: str, content: bytes) -> bytes:
        label = self._label(self.identity.name, turn, peer)
        signed = sealed(self.identity.signing, "letter", label, content)
        key = X25519PublicKey.from_public_bytes(bytes.fromhex(self.identity.peer(peer).opens))
        return bytes(_suite().encrypt(signed, key, _INFO))

    def read(self, turn: str, peer: str, letter: bytes) -> bytes:
        """What a peer wrote to this site in this turn; :class:`Forged` if it did not."""
        keys = self.identity.peer(peer)
        try:
            signed = bytes(_suite().decrypt(letter, self.identity.opening, _INFO))
        except (InvalidTag, ValueError):
            raise Forged("it can't be opened") from None
        label, content = opened(bytes.fromhex(keys.signs), "letter", signed)
        if label != self._label(peer, turn, self.identity.name):
            raise Forged("it is of another matching")
        return content

    @contextmanager
    def questioned(self, peer: str) -> Iterator[None]:
        """Leaves a peer out whose letter can't be believed, and says so."""
        try:
            yield
        except (Forged, ValueError, KeyError) as problem:
            log.warning("a letter from '%s' was refused: %s.", peer[:60], problem)

    def _label(self, sender: str, turn: str, receiver: str) -> Label:
        return Label(self.run, sender, self.attempt, f"{turn} to {receiver}")


def _suite() -> Suite:
    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
