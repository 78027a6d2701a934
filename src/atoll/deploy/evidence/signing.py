"""Ed25519 signatures over small statements, each for one purpose."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from atoll.errors import AtollError
from atoll.files import PRIVATE, make_folder, refuse_shared_secret, write_text


def canonical(value: Any) -> str:
    """The one way in which a statement is written."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def public_of(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()


def signature(key: Ed25519PrivateKey, purpose: str, statement: Mapping[str, Any]) -> str:
    return key.sign(_bytes(purpose, statement)).hex()


def is_signed(public: Any, purpose: str, statement: Mapping[str, Any], found: Any) -> bool:
    """Whether the owner of a public key has signed a statement; whatever may have been sent."""
    try:
        owner = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        owner.verify(bytes.fromhex(found), _bytes(purpose, statement))
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def key_at(path: Path) -> Ed25519PrivateKey:
    """The key of a file that its owner alone can read; made if there is none."""
    make_folder(path.parent)
    if not path.exists():
        made = Ed25519PrivateKey.generate().private_bytes_raw().hex()
        write_text(path, made, PRIVATE)
    try:
        refuse_shared_secret(path)
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(path.read_text().strip()))
    except (OSError, ValueError) as problem:
        raise AtollError(
            f"'{path}' is no key ({problem}); put the right one back, or move it away for another."
        ) from problem


def _bytes(purpose: str, statement: Mapping[str, Any]) -> bytes:
    return f"atoll evidence: {purpose}\0{canonical(statement)}".encode()
