"""Every reply is checked before use; a bad one is left out and the others go on without it."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from atoll.kernels import array, fit, kernels
from atoll.leaves import Like, everybody
from atoll.masked import Masked
from atoll.tree import Leaf, Tree, take

log = logging.getLogger("atoll")
# No honest number is larger, and sums of such numbers stay finite in single precision.
LARGEST = 1e15
BAD = "it has values that are NaN, infinite or too large"


@dataclass(frozen=True)
class Batch:
    """The replies of some clients: leaves ``[m, ...]`` or ragged, ``weight [m]`` if sent."""

    clients: tuple[int, ...]
    body: Tree
    weight: Tensor | None = None

    @property
    def weights(self) -> Tensor:
        """Everybody counts the same where no weight was sent."""
        ones = torch.ones(len(self.clients), dtype=torch.float64)
        return ones if self.weight is None else self.weight


@dataclass(frozen=True)
class Rejection:
    """One client's reply that was left out, and why."""

    round: int
    step: str
    client: int
    reason: str


def misfits(batch: Batch, expect: Mapping[str, Any]) -> dict[int, str]:
    """The positions of the replies that do not look like ``expect`` (one reply), and why."""
    clients = batch.clients
    if set(batch.body) != set(expect):
        missing = sorted(set(expect) - set(batch.body))
        extra = sorted(set(batch.body) - set(expect))
        return everybody(clients, f"missing {missing}, unexpected {extra}")
    bad: dict[int, str] = {}
    for name, leaf in batch.body.items():
        wanted = expect[name]
        check = wanted.misfits if isinstance(wanted, Like) else _TensorLike(wanted).misfits
        bad |= {i: f"'{name}' {why}" for i, why in check(leaf, clients).items()}
    return bad


def largest_reply(expect: Mapping[str, Any]) -> int | None:
    """How many bytes a reply that looks like ``expect`` has at most, if that can be said."""
    leaves = [
        like.largest if isinstance(like, Like) else like.numel() * like.itemsize
        for like in expect.values()
    ]
    known = [size for size in leaves if size is not None]
    names = sum(len(name) for name in expect)
    # Each leaf is named in the header, with its type, shape and place, and again in its order.
    return sum(known) + 8 * names + 512 * len(leaves) + 4096 if len(known) == len(leaves) else None


class _TensorLike(NamedTuple):
    """A plain tensor of the shape and type of ``one``."""

    one: Tensor

    def misfits(self, leaf: Leaf, clients: Sequence[int]) -> dict[int, str]:
        if not isinstance(leaf, Tensor):
            return everybody(clients, "is no plain tensor")
        if leaf.shape != (len(clients), *self.one.shape):
            have, want = list(leaf.shape[1:]), list(self.one.shape)
            return everybody(clients, f"has shape {have} per client, not {want}")
        if leaf.dtype != self.one.dtype:
            return everybody(clients, f"is {leaf.dtype}, not {self.one.dtype}")
        return {}


def received(body: Tree, expect: Mapping[str, Any]) -> Tree:
    """Replies that fit, each leaf as whoever expects it wants to have it."""
    likes = {name: like for name, like in expect.items() if isinstance(like, Like)}
    return body | {name: like.received(body[name]) for name, like in likes.items()}


def bad_weights(batch: Batch, weighted: bool, heaviest: Mapping[int, float]) -> dict[int, str]:
    """The positions of the replies whose weight can't be used, and why.

    ``heaviest`` is the most that each client may count; one that is not named may count
    :data:`LARGEST`.
    """
    clients, weight = batch.clients, batch.weight
    if weight is None:
        return everybody(clients, "it has no weight, which is due") if weighted else {}
    if not weighted:
        return everybody(clients, "it has a weight where none is due (ask with weighted=True)")
    if weight.dtype != torch.float64 or weight.shape != (len(clients),):
        return everybody(clients, "its weight is not one number of type float64")
    if not heaviest and bool(((weight >= 0) & (weight <= LARGEST)).all()):
        return {}
    bad = {}
    for i, (client, w) in enumerate(zip(clients, weight.tolist(), strict=True)):
        if not 0 <= w < math.inf:
            bad[i] = "its weight is negative or not finite"
        elif w > heaviest.get(client, LARGEST):
            bad[i] = f"its weight is {w:g}, more than the {heaviest.get(client, LARGEST):g} it has"
    return bad


def bad_values(body: Mapping[str, Leaf]) -> dict[int, str]:
    """The positions of the clients that sent a NaN, an infinity or numbers beyond any use."""
    bad: dict[int, str] = {}
    for leaf in body.values():
        if isinstance(leaf, Tensor):
            good = (_norm(leaf.flatten(1), 1) if leaf.dim() > 1 else leaf.abs()) <= LARGEST
            found = (~good).nonzero().flatten().tolist()
        else:
            found = [i for i, n in enumerate(leaf.numbers()) if not _norm(n) <= LARGEST]
        bad |= dict.fromkeys(found, BAD)
    return bad


def checked_copy(body: Mapping[str, Leaf]) -> tuple[Tree, dict[int, str]]:
    """Replies that share no memory with those given, and what :func:`bad_values` finds in them.

    By compiled kernels that is one look at the values.
    """
    copied: Tree = {}
    bad: dict[int, str] = {}
    for name, leaf in body.items():
        values = leaf.values if isinstance(leaf, Masked) else leaf
        if not isinstance(values, Tensor) or values.dim() < 2 or not fit(values):
            bad |= bad_values({name: leaf})
            copied[name] = leaf.clone()
            continue
        out = torch.empty_like(values)
        rows, copy = (array(t).reshape(len(values), -1) for t in (values, out))
        square_K = np.empty(len(values), dtype=rows.dtype)
        kernels("copies").copied(rows, copy, square_K)
        bad |= dict.fromkeys(np.flatnonzero(~(square_K <= LARGEST**2)).tolist(), BAD)
        copied[name] = leaf.with_copied(out) if isinstance(leaf, Masked) else out
    return copied, bad


def usable(values: Mapping[str, Tensor], weight: float) -> bool:
    """Whether a weighted sum can be one of good replies alone; cheap beside a look at each."""
    limit = LARGEST * max(weight, 1.0)
    return all(_length(value) <= limit for value in values.values())


def _length(values: Tensor) -> float:
    """The norm of all values together."""
    if fit(values):
        return math.sqrt(kernels("copies").square(array(values).reshape(-1)))
    return float(_norm(values))


def _norm(values: Tensor, dim: int | None = None) -> Tensor:
    """NaN and infinity survive it, and what is too large becomes infinite at worst."""
    if not values.is_floating_point():
        values = values.double()
    norm: Tensor = torch.linalg.vector_norm(values, dim=dim)
    return norm


def without(batch: Batch, bad: Collection[int]) -> Batch:
    good = [i for i in range(len(batch.clients)) if i not in bad]
    clients = tuple(batch.clients[i] for i in good)
    weight = None if batch.weight is None else batch.weight[good]
    return Batch(clients, take(batch.body, good), weight)
