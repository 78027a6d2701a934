"""What secure sums are composed of: X25519, HKDF-SHA256, AES and Shamir's secret sharing.

All of it is that of the libraries ``cryptography`` and ``pycryptodome``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

from atoll.errors import AtollError

try:
    from Crypto.Protocol.SecretSharing import Shamir
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ImportError:
    raise AtollError(
        "secure sums need cryptography and pycryptodome; install atoll[privacy]."
    ) from None

KEY, SEED = 32, 16
_NONCE, _TAG = 12, 16


class Broken(ValueError):
    """A key, a share or a message that no honest party sends."""


def new_seed() -> bytes:
    return os.urandom(SEED)


def private_key(seed: bytes) -> X25519PrivateKey:
    """The key that a seed stands for: sixteen bytes are what secret sharing takes at a time."""
    return X25519PrivateKey.from_private_bytes(_derived(seed, b"atoll: mask key"))


def public_bytes(key: X25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def agreed(own: X25519PrivateKey, other: bytes, purpose: bytes) -> bytes:
    """The secret that two parties share for a purpose, 32 bytes."""
    try:
        secret = own.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError as problem:  # a point of small order, or no point
        raise Broken("a public key that is none") from problem
    return _derived(secret, purpose)


def _derived(secret: bytes, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=KEY, salt=None, info=purpose).derive(secret)


def add_mask(total: np.ndarray, key: bytes, sign: int) -> None:
    """Add to ``total [D]`` (uint64) the keystream of AES-256 in counter mode, or take it away."""
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    mask = np.frombuffer(stream.update(bytes(total.nbytes)), dtype=np.uint64)
    if sign > 0:
        np.add(total, mask, out=total)
    else:
        np.subtract(total, mask, out=total)


def mask_of_seed(seed: bytes) -> bytes:
    """The key of the mask that a party lays over its own numbers."""
    return _derived(seed, b"atoll: own mask")


def sealed(key: bytes, content: bytes, about: bytes) -> bytes:
    """Encrypted and authenticated (AES-256-GCM), together with what it is about."""
    nonce = os.urandom(_NONCE)
    return nonce + AESGCM(key).encrypt(nonce, content, about)


def opened(key: bytes, box: bytes, about: bytes) -> bytes:
    try:
        return AESGCM(key).decrypt(box[:_NONCE], box[_NONCE:], about)
    except InvalidTag as problem:
        raise Broken("a share that was altered on its way") from problem


def sealed_size(content: int) -> int:
    return _NONCE + content + _TAG


def shares_of(seed: bytes, holders: int, threshold: int) -> list[bytes]:
    """Shamir's shares of a seed; any ``threshold`` of them make it out, fewer tell nothing."""
    return [share for _, share in Shamir.split(threshold, holders, seed, False)]


def seed_of(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """The seed, from the shares of at least ``threshold`` holders by their places."""
    some: Sequence[tuple[int, bytes]] = sorted(shares.items())[:threshold]
    return Shamir.combine([(place + 1, share) for place, share in some], False)
