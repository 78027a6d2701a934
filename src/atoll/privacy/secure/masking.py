"""The clients' side of secure sums, for the K clients of a host."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from atoll.device import of_numpy
from atoll.federation.calls import Call
from atoll.federation.validation import Batch
from atoll.privacy.secure.fixed_point import encoded, fits
from atoll.privacy.secure.party import Keys, Party
from atoll.privacy.secure.primitives import KEY, SEED, Broken, sealed_size
from atoll.privacy.secure.signing import SIGNATURE, Signer, Signers, Simulated
from atoll.tree import Tree, kind

log = logging.getLogger("atoll")
# The kind of all that belongs to secure sums and to no method.
SECURE = "secure"
KEYS, SHARES, UNMASK = "secure_keys", "secure_shares", "secure_unmask"
AGREE = "secure_consistency"
BOX = sealed_size(2 * SEED)
# How many bytes each part of a party's signed keys has, as it is sent.
PARTS_OF_KEYS = {"cipher": KEY, "mask": KEY, "signer": KEY, "signature": SIGNATURE}


class Masking:
    """The parties of a sum that is under way, by client."""

    def __init__(self, share: float, signers: Signers | None = None) -> None:
        self.share = share
        self.signers = signers or Simulated()
        self.parties: dict[int, Party] = {}

    def turn(self, call: Call, row: Tree, clients: tuple[int, ...]) -> Batch | None:
        """The answer to a turn of the protocol itself; None if the call is a method's step."""
        turns: dict[str, Callable[[Call, Tree, tuple[int, ...]], Batch]] = {
            KEYS: self._keys,
            SHARES: self._shares,
            AGREE: self._agree,
            UNMASK: self._unmask,
        }
        return turns[call.step](call, row, clients) if call.step in turns else None

    def _keys(self, call: Call, row: Tree, clients: tuple[int, ...]) -> Batch:
        made, session = [], self.signers.session(call.round, call.nth)
        for client in clients:
            self.signers.begin(client, session)
            signer = Signer(client, session, self.signers.key(client), self.signers)
            self.parties[client] = Party(self.share, signer)
            made.append(self.parties[client].keys())
        return _batch(
            clients,
            **{
                part: torch.stack([_tensor(getattr(keys, part)) for keys in made])
                for part in PARTS_OF_KEYS
            },
        )

    def _shares(self, call: Call, row: Tree, clients: tuple[int, ...]) -> Batch:
        keys = keys_of(call.shared)
        order = sorted(keys)
        boxes = torch.zeros(len(clients), len(order), BOX, dtype=torch.uint8)
        for i, client in enumerate(clients):
            sealed = self._party(client).shares(keys)
            for j, other in enumerate(order):
                if other != client:
                    boxes[i, j] = _tensor(sealed[other])
        return _batch(clients, boxes=boxes)

    def _agree(self, call: Call, row: Tree, clients: tuple[int, ...]) -> Batch:
        answered = _numbers(call.shared, "answered")
        signed = [_tensor(self._party(client).agreed(answered)) for client in clients]
        return _batch(clients, signature=torch.stack(signed))

    def _unmask(self, call: Call, row: Tree, clients: tuple[int, ...]) -> Batch:
        answered = _numbers(call.shared, "answered")
        sharing = _numbers(call.shared, "sharing")
        agreeing = _numbers(call.shared, "agreeing")
        signatures = dict(zip(agreeing, _rows(call.shared, "signature"), strict=True))
        shares = torch.zeros(len(clients), len(sharing), SEED, dtype=torch.uint8)
        for i, client in enumerate(clients):
            party = self.parties.pop(client, None)
            if party is None:
                raise Broken("a turn of no sum")
            found = party.revealed(answered, signatures)
            if set(found) != set(sharing):
                raise Broken("other parties than those that shared masks")
            shares[i] = torch.stack([_tensor(found[other]) for other in sharing])
        return _batch(clients, shares=shares)

    def threshold(self, clients: tuple[int, ...]) -> int:
        return min(self._party(client).threshold for client in clients)

    def masked(self, call: Call, row: Tree, batch: Batch) -> Batch:
        """Replies as they leave: weighted, in fixed point, masked; one that can't be is missing."""
        sharing = _numbers(call.shared, "sharing")
        inbox = row[f"{SECURE}/inbox"]
        assert isinstance(inbox, Tensor)
        rows = vectors(batch)
        good = fits(rows, len(sharing)).tolist()
        made, stay = [], []
        for i, client in enumerate(batch.clients):
            if not good[i]:
                log.warning("client %d has numbers that no sum can hold; it sits this out.", client)
                continue
            boxes = {
                other: inbox[i, j].cpu().numpy().tobytes()
                for j, other in enumerate(sharing)
                if other != client
            }
            numbers = self._party(client).masked(encoded(rows[i]), boxes, call.step)
            made.append(of_numpy(numbers.view(np.int64)))
            stay.append(client)
        if not made:
            raise Broken("numbers that no sum can hold")
        return _batch(tuple(stay), masked=torch.stack(made))

    @staticmethod
    def is_summed(row: Tree) -> bool:
        """Whether a step's replies are to be masked."""
        return f"{SECURE}/inbox" in row

    @staticmethod
    def bare(call: Call, row: Tree) -> tuple[Call, Tree]:
        """A step as the method is to see it."""
        shared = {name: leaf for name, leaf in call.shared.items() if kind(name) != SECURE}
        kinds = tuple(which for which in call.kinds if which != SECURE)
        own = {name: leaf for name, leaf in row.items() if kind(name) != SECURE}
        return replace(call, shared=shared, kinds=kinds), own

    def _party(self, client: int) -> Party:
        if client not in self.parties:
            raise Broken("a turn of no sum")
        return self.parties[client]


def vectors(batch: Batch) -> Tensor:
    """Each client's reply as one row: its numbers times its weight, its weight, and one."""
    weight = batch.weights.double()[:, None]
    parts = []
    for name in sorted(batch.body):
        leaf = batch.body[name]
        if not isinstance(leaf, Tensor) or not leaf.is_floating_point():
            raise TypeError(f"'{name}' can't be summed: a sum needs plain real numbers")
        parts.append(leaf.detach().reshape(len(leaf), -1).double() * weight)
    return torch.cat([*parts, weight, torch.ones_like(weight)], dim=1)


def keys_of(shared: Tree) -> dict[int, Keys]:
    """Everybody's public keys as they are sent round."""
    columns = (_rows(shared, part) for part in PARTS_OF_KEYS)
    found = [Keys(*parts) for parts in zip(*columns, strict=True)]
    return dict(zip(_numbers(shared, "clients"), found, strict=True))


def _rows(tree: Tree, name: str) -> list[bytes]:
    leaf = tree[f"{SECURE}/{name}"]
    assert isinstance(leaf, Tensor)
    return [row.cpu().numpy().tobytes() for row in leaf]


def _numbers(tree: Tree, name: str) -> list[int]:
    leaf = tree[f"{SECURE}/{name}"]
    assert isinstance(leaf, Tensor)
    return [int(number) for number in leaf]


def _tensor(content: bytes) -> Tensor:
    return of_numpy(np.frombuffer(bytearray(content), dtype=np.uint8))


def _batch(clients: tuple[int, ...], **leaves: Tensor) -> Batch:
    return Batch(clients, {f"{SECURE}/{name}": leaf for name, leaf in leaves.items()})
