"""One client's part in one secure sum: bytes in, bytes out."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from atoll.privacy.secure.primitives import (
    SEED,
    Broken,
    add_mask,
    agreed,
    mask_of_seed,
    new_seed,
    opened,
    private_key,
    public_bytes,
    sealed,
    shares_of,
)
from atoll.privacy.secure.signing import (
    Peers,
    Session,
    Signer,
    is_signed,
    keys_statement,
    list_statement,
)


@dataclass(frozen=True)
class Keys:
    """A party's public keys: for shares on their way to it, and for the masks it shares; with its
    signature, and the key that it signs with."""

    cipher: bytes
    mask: bytes
    signer: bytes
    signature: bytes

    def are_signed(self, session: Session, client: int, peers: Peers) -> bool:
        """Whether a known party has signed them, as this client's and for this very sum."""
        statement = keys_statement(session, client, self.cipher, self.mask)
        known = peers.knows(client, self.signer)
        return known and is_signed(self.signer, self.signature, statement)


def threshold_of(share: float, parties: int) -> int:
    """How many must stay until the end: a share of all, and never fewer than two."""
    return max(2, math.ceil(share * parties - 1e-9))


def context_of(keys: Mapping[int, Keys]) -> bytes:
    """Who takes part with which keys, as all must see it: secrets are derived for this alone."""
    digest = hashlib.sha256(b"atoll: secure sum")
    for client, own in sorted(keys.items()):
        digest.update(client.to_bytes(8, "big") + own.cipher + own.mask + own.signer)
    return digest.digest()


class Party:
    """A client in the five turns of a sum, each of which it takes once.

    It lets out its numbers masked, and of every other party either the share that takes away its
    own mask (who answered) or the one that takes away the masks it shares (who did not), never
    both. It shares masks only with parties that have signed their keys, and reveals shares only
    where enough parties have signed the same list of who answered.
    """

    def __init__(self, share: float, signer: Signer) -> None:
        self.client = signer.client
        self._signer = signer
        self._share = share
        self._turn = 0
        self._cipher = X25519PrivateKey.generate()
        self._mask_seed, self._own_seed = new_seed(), new_seed()
        self._mask = private_key(self._mask_seed)
        self._keys: dict[int, Keys] = {}
        self._of: dict[int, tuple[bytes, bytes]] = {}
        self.threshold = 0

    def keys(self) -> Keys:
        """Turn 1: public keys, signed."""
        self._take(1)
        cipher, mask = public_bytes(self._cipher), public_bytes(self._mask)
        signature = self._signer.sign(
            keys_statement(self._signer.session, self.client, cipher, mask)
        )
        self._own = Keys(cipher, mask, self._signer.public, signature)
        return self._own

    def shares(self, keys: Mapping[int, Keys]) -> dict[int, bytes]:
        """Turn 2: for every party, sealed, its shares of this one's two seeds."""
        self._take(2)
        every = [key for one in keys.values() for key in (one.cipher, one.mask, one.signer)]
        if keys.get(self.client) != self._own or len(set(every)) != len(every):
            raise Broken("keys that are not those of so many parties")
        for other, theirs in keys.items():
            if not theirs.are_signed(self._signer.session, other, self._signer.peers):
                raise Broken(f"keys of client {other} that no party has signed for this sum")
        self.threshold = threshold_of(self._share, len(keys))
        if len(keys) < self.threshold:
            raise Broken("too few parties for a sum")
        self._keys, self._context = dict(keys), context_of(keys)
        others = sorted(keys)
        of_mask = shares_of(self._mask_seed, len(others), self.threshold)
        of_own = shares_of(self._own_seed, len(others), self.threshold)
        boxes = {}
        for place, other in enumerate(others):
            content = of_mask[place] + of_own[place]
            if other == self.client:
                self._of[other] = content[:SEED], content[SEED:]
            else:
                boxes[other] = sealed(
                    self._box_key(other), content, self._about(self.client, other)
                )
        return boxes

    def masked(self, numbers: np.ndarray, boxes: Mapping[int, bytes], step: str = "") -> np.ndarray:
        """Turn 3: its numbers ``[D]`` (uint64) under its own mask and those it shares with the
        senders of ``boxes``; ``step`` is what they come from."""
        self._take(3)
        self._step = step
        if not set(boxes) <= set(self._keys) - {self.client}:
            raise Broken("shares of parties that are none")
        if len(boxes) + 1 < self.threshold:
            raise Broken("too few parties for a sum")
        for other, box in boxes.items():
            content = opened(self._box_key(other), box, self._about(other, self.client))
            self._of[other] = content[:SEED], content[SEED:]
        total = numbers.copy()
        add_mask(total, mask_of_seed(self._own_seed), 1)
        for other in boxes:
            secret = pair_key(self._mask, self._keys[other].mask, self._context)
            add_mask(total, secret, 1 if self.client < other else -1)
        return total

    def agreed(self, answered: Collection[int]) -> bytes:
        """Turn 4: its signature over who answered; one list, on which it must be itself."""
        self._take(4)
        circle = set(answered)
        if not circle <= set(self._of) or len(circle) < self.threshold:
            raise Broken("too few parties for a sum")
        if self.client not in circle:
            raise Broken("a list of who answered that leaves this party out")
        signers = [self._keys[other].signer for other in circle]
        self._signer.peers.settle(self._signer.session, self._step, signers)
        self._answered = frozenset(circle)
        self._list = list_statement(self._context, self._of, circle)
        return self._signer.sign(self._list)

    def revealed(
        self, answered: Collection[int], signatures: Mapping[int, bytes]
    ) -> dict[int, bytes]:
        """Turn 5: a share of each party's own mask, or of its shared ones if it did not answer."""
        self._take(5)
        if self._answered != set(answered):
            raise Broken("another list of who answered than was signed")
        agreeing = [
            other
            for other, signature in signatures.items()
            if other in self._answered
            and is_signed(self._keys[other].signer, signature, self._list)
        ]
        if len(agreeing) < self.threshold:
            raise Broken("too few parties agree on who answered")
        return {
            other: own if other in self._answered else mask
            for other, (mask, own) in self._of.items()
        }

    def _take(self, turn: int) -> None:
        if turn != self._turn + 1:
            raise Broken(f"turn {turn} after turn {self._turn}")
        self._turn = turn

    def _box_key(self, other: int) -> bytes:
        purpose = b"atoll: shares" + self._context
        return agreed(self._cipher, self._keys[other].cipher, purpose)

    def _about(self, sender: int, receiver: int) -> bytes:
        return self._context + sender.to_bytes(8, "big") + receiver.to_bytes(8, "big")


def pair_key(own: X25519PrivateKey, other: bytes, context: bytes) -> bytes:
    """The key of the mask that two parties share."""
    return agreed(own, other, b"atoll: shared mask" + context)


def unmasked(
    total: np.ndarray,
    keys: Mapping[int, Keys],
    sharing: Sequence[int],
    answered: Collection[int],
    seeds: Mapping[int, bytes],
) -> np.ndarray:
    """The sum of those who ``answered``, given the seeds that were made out.

    ``sharing`` are those who share masks. Of who answered it is the seed of its own mask, of who
    did not that of its key.
    """
    context, bare = context_of(keys), total.copy()
    for client in answered:
        add_mask(bare, mask_of_seed(seeds[client]), -1)
    for gone in (client for client in sharing if client not in answered):
        key = private_key(seeds[gone])
        if public_bytes(key) != keys[gone].mask:
            raise Broken("shares that do not make out a key")
        for client in answered:
            # What the one who answered has added for the pair is taken away again.
            add_mask(bare, pair_key(key, keys[client].mask, context), -1 if client < gone else 1)
    return bare
