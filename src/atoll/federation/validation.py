"""Every reply is checked before use; a bad one is left out and the others go on without it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from atoll.leaves import Like, everybody
from atoll.tree import Leaf, Tree, take

log = logging.getLogger("atoll")


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


def bad_weights(weight: Tensor) -> list[int]:
    good = weight.isfinite() & (weight >= 0)
    return [] if bool(good.all()) else torch.nonzero(~good).flatten().tolist()


def bad_values(body: Mapping[str, Leaf]) -> list[int]:
    """The positions of the clients that sent a NaN or an infinity.

    A row's sum is finite unless an entry is not (or it overflows), so one cheap pass clears
    the usual case and only suspects are looked at entry by entry.
    """
    bad: set[int] = set()
    for leaf in body.values():
        if isinstance(leaf, Tensor):
            sums = leaf.flatten(1).sum(1) if leaf.dim() > 1 else leaf
            suspects = [(i, leaf[i]) for i in (~sums.isfinite()).nonzero().flatten().tolist()]
        else:
            suspects = [(i, n) for i, n in enumerate(leaf.numbers()) if not n.sum().isfinite()]
        bad |= {i for i, block in suspects if not bool(block.isfinite().all())}
    return sorted(bad)


def without(batch: Batch, bad: Collection[int]) -> Batch:
    good = [i for i in range(len(batch.clients)) if i not in bad]
    clients = tuple(batch.clients[i] for i in good)
    return Batch(clients, take(batch.body, good), batch.weights[good])
