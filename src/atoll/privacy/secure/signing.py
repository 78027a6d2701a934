"""Signatures in a secure sum: a server that carries keys and lists can't put in others.

Every party signs, with a key that its peers know from elsewhere, its keys of a sum together with
the run, the attempt, the round and the sum's number; and the list of those who answered, before any
share is revealed (the consistency check of Bonawitz et al., 2017).
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SIGNATURE = 64
_KEYS, _LIST = b"atoll: keys of a secure sum\0", b"atoll: who answered a secure sum\0"


class Session(NamedTuple):
    """Which sum it is: the ``number``-th of a round. All of it only goes up."""

    run: str
    attempt: int
    round: int
    number: int

    @property
    def order(self) -> tuple[int, int, int]:
        return self.attempt, self.round, self.number

    def packed(self) -> bytes:
        run = self.run.encode()
        return _numbers(len(run)) + run + _numbers(*self.order)


class Peers(ABC):
    """Whose signatures count, in the run and attempt that is under way."""

    run: str = ""
    attempt: int = 0

    @abstractmethod
    def knows(self, client: int, public: bytes) -> bool:
        """Whether a key is that of a party, and may be this client's."""

    def session(self, round: int, number: int) -> Session:
        return Session(self.run, self.attempt, round, number)


class Signers(Peers):
    """The same for who signs by itself."""

    @abstractmethod
    def key(self, client: int) -> Ed25519PrivateKey:
        """The key that a client of this host signs with."""

    def begin(self, client: int, session: Session) -> None:
        """Called before keys are made for a sum: no two are made for the same one."""
        return

    def settle(self, session: Session, step: str, circle: Collection[bytes]) -> None:
        """Called before a list of who answered is signed, with their public keys: an error where
        the same sum was made over others before, since the two would differ by single parts."""
        return


class Simulated(Signers):
    """Parties of one process. Their keys follow from their numbers: nothing is hidden here."""

    def key(self, client: int) -> Ed25519PrivateKey:
        return _simulated(client)

    def knows(self, client: int, public: bytes) -> bool:
        return public == public_half(_simulated(client))


@dataclass(frozen=True)
class Signer:
    """One party's own key in one sum, and whom it knows."""

    client: int
    session: Session
    key: Ed25519PrivateKey
    peers: Signers

    @property
    def public(self) -> bytes:
        return public_half(self.key)

    def sign(self, statement: bytes) -> bytes:
        return self.key.sign(statement)


def keys_statement(session: Session, client: int, cipher: bytes, mask: bytes) -> bytes:
    """What a party signs of its keys. All but the run's name is of fixed length."""
    return _KEYS + session.packed() + _numbers(client) + cipher + mask


def list_statement(context: bytes, sharing: Collection[int], answered: Collection[int]) -> bytes:
    """What a party signs of who answered, of those who share masks in the sum of a context."""
    lists = (_numbers(len(some), *sorted(some)) for some in (sharing, answered))
    return _LIST + context + b"".join(lists)


def public_half(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


@lru_cache(maxsize=4096)
def is_signed(public: bytes, signature: bytes, statement: bytes) -> bool:
    """Whether the owner of a public key has signed a statement.

    Remembered, since in a simulation all parties of one process check the same.
    """
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, statement)
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=4096)
def _simulated(client: int) -> Ed25519PrivateKey:
    seed = hashlib.sha256(b"atoll: a simulated party" + _numbers(client)).digest()
    return Ed25519PrivateKey.from_private_bytes(seed)


def _numbers(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "big") for value in values)
