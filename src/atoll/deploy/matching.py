"""Anchors matched by private set intersection, pairwise and through the coordinator.

Every site hashes its ids to points of a curve and raises them to a secret exponent of its own:
``H(x)^a``, in a random order. The coordinator passes each list on to the other sites of a pair,
which raise it to theirs: ``H(x)^(ab)``, the same whoever went first. It compares the two lists of a
pair: equal points are the same entity. So the coordinator learns which entries match, a site which
of its own nodes somebody else holds too, and nobody an id that is not its own: without an exponent
a dictionary of all ids is of no use, since ``H(x)^a`` can't be told from a random point. The curve
and the hashing are those of ``openmined.psi``. Parties are taken to follow the protocol: one that
submits ids it does not hold learns whether somebody else does, as with any such protocol.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from atoll.atomic import written_whole
from atoll.deploy.durable import Durable
from atoll.errors import AtollError
from atoll.tree import Leaf, Ragged, Tree

_POINT = 33  # a compressed point of P-256
_LARGEST_LIST = 20_000_000


class Matcher:
    """A site's part. Its secrets lie in its own folder until the matching is over."""

    def __init__(self, ids: np.ndarray, folder: Path) -> None:
        self.ids = ids
        self.folder = folder

    def turn(
        self, turn: str, tree: Mapping[str, Leaf], facts: Mapping[str, Any]
    ) -> tuple[Tree, dict[str, Any]]:
        if turn == "blind":
            return {"points": self._blind()}, {}
        if turn == "raise":
            return {"points": self._raise(_points(tree["points"]))}, {}
        if turn == "hash":
            return {"points": self._hash(str(facts["salt"]))}, {}
        if turn == "anchors":
            return {}, {"rows": self._settle(np.asarray(_dense(tree["shared"])))}
        raise ValueError(f"there is no turn '{turn}'")

    def _blind(self) -> torch.Tensor:
        psi = _library()
        client = psi.client.CreateWithNewKey(True)
        order = _shuffled(len(self.ids))
        with _secret_file(self.folder / "secret.npz") as part, part.open("wb") as file:
            np.savez(file, key=np.frombuffer(client.GetPrivateKeyBytes(), np.uint8), order=order)
        request = client.CreateRequest([_text(self.ids[i]) for i in order])
        return _packed(request.encrypted_elements)

    def _raise(self, points: np.ndarray) -> torch.Tensor:
        psi = _library()
        with np.load(self.folder / "secret.npz", allow_pickle=False) as secret:
            key = secret["key"].tobytes()
        request = psi.Request()
        request.reveal_intersection = True
        request.encrypted_elements.extend(point.tobytes() for point in points)
        return _packed(
            psi.server.CreateFromKey(key, True).ProcessRequest(request).encrypted_elements
        )

    def _hash(self, salt: str) -> torch.Tensor:
        """Salted hashes instead: quick, and open to anybody with a dictionary of the ids."""
        order = _shuffled(len(self.ids))
        with _secret_file(self.folder / "secret.npz") as part, part.open("wb") as file:
            np.savez(file, key=np.zeros(0, np.uint8), order=order)
        digests = [hashlib.sha256(f"{salt}:{_text(self.ids[i])}".encode()).digest() for i in order]
        return _packed([digest + b"\0" for digest in digests])

    def _settle(self, shared: np.ndarray) -> list[int]:
        """Note which rows are anchors; the answer ranks the places that were asked about."""
        with np.load(self.folder / "secret.npz", allow_pickle=False) as secret:
            order = secret["order"]
        rows = order[shared]
        ascending = np.sort(rows)
        Durable(self.folder).keep_facts("anchors", {"rows": ascending.tolist()})
        (self.folder / "secret.npz").unlink()
        ranks: list[int] = np.searchsorted(ascending, rows).tolist()
        return ranks


def numbered(
    matches: Sequence[tuple[int, int, np.ndarray, np.ndarray]], sizes: Sequence[int]
) -> Any:
    """Which places of each site are anchors, and a common number for equal entities.

    ``matches`` holds, for a pair of sites, the places in their two lists that are equal.
    """
    start = np.cumsum([0, *sizes])
    parent = np.arange(start[-1])
    for i, j, a, b in matches:
        # Entities are equal across pairs by transitivity; a list holds each of them once.
        for left, right in zip((start[i] + a).tolist(), (start[j] + b).tolist(), strict=True):
            low, high = sorted((_root(parent, left), _root(parent, right)))
            parent[high] = low
    roots = np.array([_root(parent, n) for n in range(len(parent))])
    shared = np.bincount(roots, minlength=len(parent))[roots] > 1
    places = [np.flatnonzero(shared[a:b]) for a, b in pairwise(start)]
    entities = [roots[a + p] for a, p in zip(start[:-1], places, strict=True)]
    return places, entities


def server_numbers(
    entities: Sequence[np.ndarray], ranks: Sequence[np.ndarray]
) -> tuple[np.ndarray, ...]:
    """Each site's anchors in the order of its rows, numbered by first appearance."""
    in_order = [entity[np.argsort(rank)] for entity, rank in zip(entities, ranks, strict=True)]
    seen = np.concatenate(in_order) if in_order else np.zeros(0, np.int64)
    unique, first = np.unique(seen, return_index=True)
    number = np.empty(len(unique), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(unique))
    return tuple(number[np.searchsorted(unique, entity)] for entity in in_order)


def equal_places(a: Leaf, b: Leaf) -> tuple[np.ndarray, np.ndarray]:
    """Where two lists of points are equal."""
    places = {point.tobytes(): i for i, point in enumerate(_points(a))}
    found = [(places.get(point.tobytes(), -1), j) for j, point in enumerate(_points(b))]
    pairs = np.array([pair for pair in found if pair[0] >= 0], dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _root(parent: np.ndarray, node: int) -> int:
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = int(parent[node])
    return node


def _text(entity: Any) -> str:
    return str(entity)


def _shuffled(n: int) -> np.ndarray:
    seed = np.random.SeedSequence(int.from_bytes(secrets.token_bytes(32), "little"))
    return np.random.Generator(np.random.PCG64(seed)).permutation(n)


def _secret_file(path: Path) -> Any:
    return written_whole(path)


def _packed(points: Sequence[bytes]) -> torch.Tensor:
    if any(len(point) != _POINT for point in points):
        raise ValueError("a point of an unexpected size")
    flat = np.frombuffer(b"".join(points), dtype=np.uint8).reshape(-1, _POINT)
    return torch.from_numpy(flat.copy())


def _points(leaf: Leaf) -> np.ndarray:
    points = np.asarray(_dense(leaf))
    if points.ndim != 2 or points.shape[1] != _POINT or points.dtype != np.uint8:
        raise ValueError("no list of points")
    if len(points) > _LARGEST_LIST:
        raise ValueError("too long a list of points")
    return points


def _dense(leaf: Leaf) -> torch.Tensor:
    if isinstance(leaf, Ragged):
        raise ValueError("a ragged list")
    return leaf


def _library() -> Any:
    try:
        import private_set_intersection.python as psi
    except ImportError:
        raise AtollError(
            "matching anchors privately needs openmined.psi; install it with: pip install "
            "'atoll[psi]'"
        ) from None
    return psi
