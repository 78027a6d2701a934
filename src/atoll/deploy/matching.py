"""Anchors matched by private set intersection between each two sites, which the server carries.

For a pair of sites with secret exponents ``a`` and ``b``, made for this pair and this matching
alone, and ids hashed to points ``H(x)`` of a group:

1. ``lists``: each sends the other ``H(x)^a``, in a random order.
2. ``raise``: each returns what it got, raised to its own exponent, ``H(x)^(ab)``, in another random
   order, and raises the other's list for itself. Now both can compare the two lists under both
   secrets: they learn *how many* entities they share, and not yet which.
3. ``compare``: if these are not too few for either of them, each tells the other at which places of
   the list it sent they are, in the order of the points ``H(x)^(ab)``.
4. ``anchors``: each knows its shared rows. The server gets their ranks in that same order, so that
   it can tell which anchors of two sites are the same, and nothing of pairs that share too few.

Everything from site to site is signed by the sender for this receiver, run, attempt and turn, then
encrypted for the receiver (HPKE, RFC 9180): the server can neither read it nor put in points of its
own, so a dictionary of guesses is of no use to it. Without ``b`` nobody can distinguish ``H(x)^b``
from a random point, so a list is of no use to its receiver either, beyond its length.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from atoll.archive import read_tree, write_tree
from atoll.deploy.durable import Durable
from atoll.deploy.envelope import Forged
from atoll.deploy.identity import Identity
from atoll.deploy.letters import Letters
from atoll.deploy.ristretto import POINT, new_scalar, point_of, raised
from atoll.files import PRIVATE
from atoll.options import check_options, option
from atoll.tree import Leaf, Tree

log = logging.getLogger("atoll")
_SECRET = "secret.safetensors"
_FEWEST = 4  # bytes that say what is too few
TURNS = ("lists", "raise", "compare", "anchors")


@dataclass(frozen=True)
class Limits:
    """What a site asks of a matching: a pair that shares fewer than ``fewest_shared`` learns how
    many and nothing else, and a peer's list may have ``largest_list`` entries at most."""

    fewest_shared: int = option(1, at_least=1, at_most=2**31)
    largest_list: int = option(1_000_000, at_least=1)

    def __post_init__(self) -> None:
        check_options("limits", self)


class OutOfTurn(RuntimeError):
    """A turn of a matching that does not follow the last one."""


class Matcher:
    """A site's part. Its secrets lie in its own folder until the matching is over.

    ``session`` is the run and the attempt.
    """

    def __init__(
        self,
        ids: np.ndarray,
        folder: Path,
        identity: Identity,
        session: tuple[str, int],
        limits: Limits,
    ) -> None:
        self.ids = ids
        self.folder = folder
        self.limits = limits
        self.attempt = session[1]
        self.letters = Letters(identity, *session)

    def turn(self, turn: str, tree: Mapping[str, Leaf], peers: Iterable[str] = ()) -> Tree:
        """Do a turn with what peers have sent; the answer has what goes to each of them.

        A letter that its sender has not signed, or that can't be right, counts as none: the pair is
        left out, and the log says so.
        """
        if turn not in TURNS:
            raise ValueError(f"there is no turn '{turn}'")
        if turn == "lists":
            return self._lists(peers)
        kept = self._kept(TURNS[TURNS.index(turn) - 1])
        received = self._received(TURNS[TURNS.index(turn) - 1], tree)
        do: dict[str, Callable[[Tree, dict[str, bytes]], Tree]] = {
            "raise": self._raise,
            "compare": self._compare,
            "anchors": self._settle,
        }
        return do[turn](kept, received)

    def _lists(self, peers: Iterable[str]) -> Tree:
        points = [point_of(str(entity).encode()) for entity in self.ids]
        fewest = self.limits.fewest_shared.to_bytes(_FEWEST, "big")
        kept: Tree = {}
        sent: Tree = {}
        for peer in peers:
            key, order = new_scalar(), _shuffled(len(points))
            own = b"".join(raised(points[i], key) for i in order)
            kept[f"key/{peer}"] = _tensor(key)
            kept[f"order/{peer}"] = torch.from_numpy(order)
            sent[f"to/{peer}"] = _tensor(self.letters.write("lists", peer, fewest + own))
        self._keep("lists", kept)
        return sent

    def _raise(self, kept: Tree, received: dict[str, bytes]) -> Tree:
        sent: Tree = {}
        for peer, content in received.items():
            with self.letters.questioned(peer):
                points = _points(content[_FEWEST:], self.limits.largest_list)
                key = _bytes(kept[f"key/{peer}"])
                both = [raised(point, key) for point in points]
                kept[f"fewest/{peer}"] = torch.tensor([int.from_bytes(content[:_FEWEST], "big")])
                kept[f"theirs/{peer}"] = _tensor(b"".join(both))
                mixed = b"".join(both[i] for i in _shuffled(len(both)))
                sent[f"to/{peer}"] = _tensor(self.letters.write("raise", peer, mixed))
        self._keep("raise", kept)
        return sent

    def _compare(self, kept: Tree, received: dict[str, bytes]) -> Tree:
        sent: Tree = {}
        for peer, content in received.items():
            with self.letters.questioned(peer):
                own = _points(content, len(self.ids))
                if len(own) != len(self.ids):
                    raise Forged("it returned another number of points than it got")
                theirs = _points(_bytes(kept[f"theirs/{peer}"]), self.limits.largest_list)
                places = _shared_places(own, theirs)
                fewest = max(self.limits.fewest_shared, int(_dense(kept[f"fewest/{peer}"])[0]), 1)
                if len(places) < fewest:
                    places = places[:0]
                kept[f"count/{peer}"] = torch.tensor([len(places)])
                letter = self.letters.write("compare", peer, places.astype(">i4").tobytes())
                sent[f"to/{peer}"] = _tensor(letter)
        self._keep("compare", kept)
        return sent

    def _settle(self, kept: Tree, received: dict[str, bytes]) -> Tree:
        """Note which rows are anchors; the answer ranks those of each pair among all of them."""
        pairs: dict[str, np.ndarray] = {}
        for peer, content in received.items():
            with self.letters.questioned(peer):
                places = np.frombuffer(content, dtype=">i4").astype(np.int64)
                if len(places) != int(_dense(kept[f"count/{peer}"])[0]):
                    raise Forged("it counts other shared entities than there are")
                there = (places >= 0) & (places < len(self.ids))
                if len(np.unique(places)) != len(places) or not there.all():
                    raise Forged("it names places that there are not")
                if len(places):
                    pairs[peer] = _dense(kept[f"order/{peer}"]).numpy()[places]
        rows = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *pairs.values()]))
        Durable(self.folder).keep_facts("anchors", {"rows": rows.tolist()})
        (self.folder / _SECRET).unlink()
        ranks = {peer: np.searchsorted(rows, own) for peer, own in pairs.items()}
        settled: Tree = {"anchors": torch.tensor([len(rows)])}
        return settled | {f"pair/{peer}": torch.from_numpy(rank) for peer, rank in ranks.items()}

    def _received(self, turn: str, tree: Mapping[str, Leaf]) -> dict[str, bytes]:
        """What peers wrote in the turn before, if they did."""
        received: dict[str, bytes] = {}
        for name, leaf in tree.items():
            peer = name.removeprefix("from/")
            with self.letters.questioned(peer):
                received[peer] = self.letters.read(turn, peer, _bytes(leaf))
        return received

    def _keep(self, turn: str, secret: Tree) -> None:
        """What the turns to come need; for this attempt alone."""
        facts = {"turn": turn, "attempt": self.attempt}
        write_tree(self.folder / _SECRET, secret, facts, PRIVATE)

    def _kept(self, turn: str) -> Tree:
        file = self.folder / _SECRET
        secret, facts = read_tree(file) if file.is_file() else ({}, {})
        if facts != {"turn": turn, "attempt": self.attempt}:
            raise OutOfTurn(turn)
        return secret


def _shared_places(own: Sequence[bytes], theirs: Sequence[bytes]) -> np.ndarray:
    """Where in the peer's list the shared points are, in the order of the points."""
    place = {point: i for i, point in enumerate(theirs)}
    shared = sorted(place.keys() & set(own))
    return np.array([place[point] for point in shared], dtype=np.int64)


def _points(content: bytes, most: int) -> list[bytes]:
    """A list of points, each once. Whether each is one of the group shows when it is raised."""
    if len(content) % POINT or len(content) > most * POINT:
        raise Forged(f"its list is of {len(content) // POINT} points, more than {most}, or torn")
    points = [content[i : i + POINT] for i in range(0, len(content), POINT)]
    if len(set(points)) != len(points):
        raise Forged("its list has a point twice")
    return points


def _shuffled(n: int) -> np.ndarray:
    seed = np.random.SeedSequence(int.from_bytes(secrets.token_bytes(32), "little"))
    return np.random.Generator(np.random.PCG64(seed)).permutation(n)


def _tensor(content: bytes) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(content, dtype=np.uint8).copy())


def _bytes(leaf: Leaf) -> bytes:
    dense = _dense(leaf)
    if dense.dtype != torch.uint8 or dense.dim() != 1:
        raise Forged("it is no letter")
    return dense.numpy().tobytes()


def _dense(leaf: Any) -> torch.Tensor:
    if not isinstance(leaf, torch.Tensor):
        raise Forged("it is no letter")
    return leaf
