"""Every reply is checked before use; a bad one is left out and the others go on without it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from atoll.tree import Leaf, Ragged, Tree, take

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


def misfit(body: Mapping[str, Leaf], expect: Mapping[str, Leaf]) -> str | None:
    """Why stacked replies do not look like ``expect`` (one reply), or None if they do."""
    if set(body) != set(expect):
        missing, extra = sorted(set(expect) - set(body)), sorted(set(body) - set(expect))
        return f"missing {missing}, unexpected {extra}"
    for name, leaf in body.items():
        wanted = expect[name]
        if isinstance(leaf, Ragged) != isinstance(wanted, Ragged):
            return f"'{name}' is ragged on one side only"
        values = leaf.values if isinstance(leaf, Ragged) else leaf
        pattern = wanted.values if isinstance(wanted, Ragged) else wanted
        row = tuple(pattern.shape[1:] if isinstance(wanted, Ragged) else pattern.shape)
        if tuple(values.shape[1:]) != row:
            return f"'{name}' has shape {list(values.shape[1:])}, not {list(row)}"
        if values.dtype != pattern.dtype:
            return f"'{name}' is {values.dtype}, not {pattern.dtype}"
    return None


def bad_weights(weight: Tensor) -> Tensor:
    return ~(weight.isfinite() & (weight >= 0))


def bad_values(body: Mapping[str, Leaf], m: int) -> Tensor:
    """Which of m clients sent a NaN or an infinity.

    A row's sum is finite unless an entry is not (or it overflows), so one cheap pass clears
    the usual case and only suspects are looked at entry by entry.
    """
    bad = torch.zeros(m, dtype=torch.bool)
    for leaf in body.values():
        if isinstance(leaf, Ragged):
            clean = bool(leaf.values.sum().isfinite())
            suspects = [] if clean else list(enumerate(leaf.blocks()))
        else:
            sums = leaf.flatten(1).sum(1) if leaf.dim() > 1 else leaf
            suspects = [(i, leaf[i]) for i in (~sums.isfinite()).nonzero().flatten().tolist()]
        for i, block in suspects:
            bad[i] |= not bool(block.isfinite().all())
    return bad


def without(batch: Batch, bad: Tensor) -> Batch:
    good = (~bad).nonzero().flatten().tolist()
    clients = tuple(batch.clients[i] for i in good)
    return Batch(clients, take(batch.body, good), batch.weights[good])
