"""Points of the group ristretto255 (RFC 9496), by libsodium as the package ``rbcl`` brings it.

A text becomes a point by ``hash_to_ristretto255`` of RFC 9380 (Appendix B): SHA-512 expands it to
64 bytes, of which libsodium makes a point by Elligator 2, twice, in the same time whatever they
are. So the time that it takes says nothing of the text but, in blocks of 128 bytes, its length.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from atoll.errors import AtollError

POINT = SCALAR = 32  # bytes
_SHA512_BLOCK = 128
_OURS = b"ATOLL-V01-CS01-with-ristretto255_XMD:SHA-512_R255MAP_RO_"


class NoPoint(ValueError):
    """Bytes that are no point of the group, or the one that stands for zero."""


def new_scalar() -> bytes:
    """A secret exponent."""
    scalar: bytes = bytes(_library().crypto_core_ristretto255_scalar_random())
    return scalar


def point_of(text: bytes, domain: bytes = _OURS) -> bytes:
    """The point that a text is hashed to. Nobody knows its logarithm to any other's base."""
    return bytes(_library().crypto_core_ristretto255_from_hash(_expanded(text, domain)))


def raised(point: bytes, scalar: bytes) -> bytes:
    """``point^scalar``, in the same time whatever both are."""
    try:
        return bytes(_library().crypto_scalarmult_ristretto255(scalar, point))
    except RuntimeError:
        raise NoPoint("no point of the group") from None


def _expanded(text: bytes, domain: bytes) -> bytes:
    """``expand_message_xmd`` of RFC 9380, Section 5.3.1, for the 64 bytes of one SHA-512."""
    tag = domain + bytes([len(domain)])
    wanted = (64).to_bytes(2, "big")
    first = hashlib.sha512(bytes(_SHA512_BLOCK) + text + wanted + b"\0" + tag).digest()
    return hashlib.sha512(first + b"\x01" + tag).digest()


@cache
def _library() -> Any:
    try:
        import rbcl
        from rbcl import _sodium as loaded
    except ImportError:
        raise AtollError(
            "matching anchors privately needs rbcl; install it with: pip install 'atoll[psi]'"
        ) from None
    except OSError as problem:
        raise AtollError(
            f"libsodium can't be loaded from the folder for temporary files ({problem}); set "
            f"TMPDIR to one that programs may be loaded from."
        ) from None
    # It unpacks libsodium to a temporary file, which nobody needs once it is loaded.
    Path(loaded._name).unlink(missing_ok=True)
    return rbcl
