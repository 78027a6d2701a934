"""Anchors matched by private set intersection, pairwise and through the coordinator.

Every site hashes its ids to points of a curve and raises them to a secret exponent of its own:
``H(x)^a``, in a random order. The coordinator passes each list on to the other sites of a pair,
which raise it to theirs: ``H(x)^(ab)``, the same whoever went first. It compares the two lists of a
pair: equal points are the same entity. So the coordinator learns which entries match, a site which
of its own nodes somebody else holds too, and nobody an id that is not its own: without an exponent
a dictionary of all ids is of no use, since nobody can distinguish ``H(x)^a`` from a random point.
The curve and the hashing are those of ``openmined.psi``. Parties are taken to follow the protocol:
one that submits ids it does not hold learns whether somebody else does, as with any such protocol.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from atoll.archive import read_tree, write_tree
from atoll.deploy.durable import Durable
from atoll.errors import AtollError
from atoll.files import PRIVATE
from atoll.tree import Leaf, Tree

_POINT = 33  # a compressed point of P-256
_LARGEST_LIST = 20_000_000
_SECRET = "secret.safetensors"


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
        self._keep(client.GetPrivateKeyBytes(), order)
        request = client.CreateRequest([_text(self.ids[i]) for i in order])
        return _packed(request.encrypted_elements)

    def _raise(self, points: np.ndarray) -> torch.Tensor:
        psi = _library()
        key = self._kept("key").tobytes()
        request = psi.Request()
        request.reveal_intersection = True
        request.encrypted_elements.extend(point.tobytes() for point in points)
        return _packed(
            psi.server.CreateFromKey(key, True).ProcessRequest(request).encrypted_elements
        )

    def _hash(self, salt: str) -> torch.Tensor:
        """Salted hashes instead: quick, and open to anybody with a dictionary of the ids."""
        order = _shuffled(len(self.ids))
        self._keep(b"", order)
        digests = [hashlib.sha256(f"{salt}:{_text(self.ids[i])}".encode()).digest() for i in order]
        return _packed([digest + b"\0" for digest in digests])

    def _keep(self, key: bytes, order: np.ndarray) -> None:
        """The secret exponent and the order of the list, for the turns to come."""
        # Not as .npz: in Python 3.11 numpy's reader fails now and then where threads share it.
        secret: Tree = {
            "key": torch.tensor(list(key), dtype=torch.uint8),
            "order": torch.from_numpy(order),
        }
        write_tree(self.folder / _SECRET, secret, {}, PRIVATE)

    def _kept(self, name: str) -> np.ndarray:
        return _dense(read_tree(self.folder / _SECRET)[0][name]).numpy()

    def _settle(self, shared: np.ndarray) -> list[int]:
        """Note which rows are anchors; the answer ranks the places in question."""
        rows = self._kept("order")[shared]
        ascending = np.sort(rows)
        Durable(self.folder).keep_facts("anchors", {"rows": ascending.tolist()})
        (self.folder / _SECRET).unlink()
        ranks: list[int] = np.searchsorted(ascending, rows).tolist()
        return ranks


def equal_places(a: Leaf, b: Leaf) -> tuple[np.ndarray, np.ndarray]:
    """Where two lists of points are equal."""
    places = {point.tobytes(): i for i, point in enumerate(_points(a))}
    found = [(places.get(point.tobytes(), -1), j) for j, point in enumerate(_points(b))]
    pairs = np.array([pair for pair in found if pair[0] >= 0], dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _text(entity: Any) -> str:
    return str(entity)


def _shuffled(n: int) -> np.ndarray:
    seed = np.random.SeedSequence(int.from_bytes(secrets.token_bytes(32), "little"))
    return np.random.Generator(np.random.PCG64(seed)).permutation(n)


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
    if not isinstance(leaf, torch.Tensor):
        raise ValueError("not a plain list")
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
