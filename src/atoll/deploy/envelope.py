"""Signed envelopes: who speaks, to whom, in which run and attempt; checked before content is read.

An envelope is ``MAGIC | signature (64) | size of the head (2) | head | content``. The head says
what the content is about (:class:`Label`) and has its SHA-256; the Ed25519 signature is over a
purpose and the head. So a request can't be taken for an answer, nor a message to one site, run or
attempt for one to another. Nothing of the content is looked at before signature and digest are
known to be good, and nothing here knows what it holds: bytes in, bytes out.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Literal, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from atoll.errors import AtollError

MAGIC = b"ATL\x01"
_SIGNATURE, _DIGEST = 64, 32
_FIXED = struct.Struct(">QBBB")  # attempt, and the sizes of run, site and id
_SIZE = struct.Struct(">H")
_START = len(MAGIC) + _SIGNATURE + _SIZE.size
# What an envelope adds to its content at most.
OVERHEAD = _START + _FIXED.size + 3 * 255 + _DIGEST
Purpose = Literal["request", "answer", "letter"]


class Forged(AtollError):
    """Bytes that are no envelope, or one that the expected party has not signed."""


class Label(NamedTuple):
    """What an envelope is about. ``site`` is the one that is asked, or that answers."""

    run: str
    site: str
    attempt: int
    id: str


def sealed(
    key: Ed25519PrivateKey, purpose: Purpose, label: Label, content: bytes, before: bytes = b""
) -> bytes:
    """The content in an envelope that the key's owner has signed; after what goes ``before`` it."""
    head = _head(label, hashlib.sha256(content).digest())
    signature = key.sign(_signed(purpose, head))
    # At once: content may be large, and every copy of it costs more than its digest.
    return b"".join((before, MAGIC, signature, _SIZE.pack(len(head)), head, content))


def opened(public: bytes, purpose: Purpose, message: bytes | memoryview) -> tuple[Label, bytes]:
    """The inverse of :func:`sealed` for the owner of the ``public`` key; :class:`Forged` if not."""
    if not isinstance(message, bytes | bytearray | memoryview):
        raise Forged("it is not bytes")
    view = memoryview(message)
    if bytes(view[: len(MAGIC)]) != MAGIC or len(view) < _START:
        raise Forged("it is in no envelope")
    (size,) = _SIZE.unpack(view[_START - _SIZE.size : _START])
    head, content = bytes(view[_START : _START + size]), view[_START + size :]
    signature = bytes(view[len(MAGIC) : len(MAGIC) + _SIGNATURE])
    if not is_signed(public, signature, _signed(purpose, head)):
        raise Forged("its signature is not that of the expected party")
    label, digest = _read(head)
    if hashlib.sha256(content).digest() != digest:
        raise Forged("its content is not what was signed")
    return label, bytes(content)


def is_signed(public: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the owner of a public key has signed a message."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _signed(purpose: Purpose, head: bytes) -> bytes:
    return b"atoll " + purpose.encode() + b"\0" + head


def _head(label: Label, digest: bytes) -> bytes:
    texts = [text.encode() for text in (label.run, label.site, label.id)]
    if not (0 <= label.attempt < 2**64 and all(len(text) < 256 for text in texts)):
        raise ValueError("a label that fits into no envelope")
    return b"".join((_FIXED.pack(label.attempt, *map(len, texts)), *texts, digest))


def _read(head: bytes) -> tuple[Label, bytes]:
    """Of a head whose signature is good; sizes that do not add up are an error all the same."""
    try:
        attempt, *sizes = _FIXED.unpack_from(head)
        if len(head) != _FIXED.size + sum(sizes) + _DIGEST:
            raise Forged("its head is damaged")
        texts, at = [], _FIXED.size
        for size in sizes:
            texts.append(head[at : at + size].decode())
            at += size
    except (struct.error, UnicodeDecodeError):
        raise Forged("its head is damaged") from None
    run, site, id = texts
    return Label(run, site, attempt, id), head[at:]
