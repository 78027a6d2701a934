"""Replies bounded and noised, kind by kind, before they leave."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from atoll.errors import AtollError
from atoll.federation.calls import Call, content_kinds
from atoll.federation.validation import Batch
from atoll.leaves import Ragged
from atoll.privacy.noise import Coins
from atoll.rng import CohortRng
from atoll.tree import Leaf, Tree, kind


class Strength(NamedTuple):
    """A kind's norm after clipping, per client and on average, and that of its noise."""

    signal: float
    noise: float


@dataclass(frozen=True)
class Clipping:
    """Each kind of a reply is clipped to the norm ``clip`` and noised by ``deviation``.

    A leaf that came with the request under the same name counts as its difference from that: a
    model as its update. All others (embeddings of anchors or public nodes, hidden
    representations, moments) count as they are.
    """

    clip: float
    deviation: float
    coins: Coins

    def applied(
        self, call: Call, row: Tree, batch: Batch, rng: CohortRng
    ) -> tuple[Batch, dict[str, Strength]]:
        """The replies as they may leave, and how strong signal and noise of each kind are."""
        body: Tree = dict(batch.body)
        strengths: dict[str, Strength] = {}
        for which in content_kinds(batch.body):
            leaves = {n: leaf for n, leaf in batch.body.items() if kind(n) == which}
            sent = {n: _sent(n, leaf, call, row) for n, leaf in leaves.items()}
            blocks = {n: _blocks(call.step, n, leaf, sent[n]) for n, leaf in leaves.items()}
            norms = [
                _norm([block[i] for block in blocks.values()]) for i in range(len(rng.clients))
            ]
            scales = [_scale(self.clip, norm) for norm in norms]
            for name, leaf in leaves.items():
                changed = self._noised(rng, name, blocks[name], scales)
                body[name] = _joined(leaf, changed, sent[name])
            size = sum(block[0].numel() for block in blocks.values())
            clipped = [n * s if s else 0.0 for n, s in zip(norms, scales, strict=True)]
            signal = sum(clipped) / len(clipped)
            strengths[which] = Strength(signal, self.deviation * math.sqrt(size))
        return Batch(batch.clients, body, _counted_alike(batch.weight)), strengths

    def _noised(
        self, rng: CohortRng, name: str, blocks: list[Tensor], scales: list[float]
    ) -> list[Tensor]:
        clipped = [
            block * scale if scale else torch.zeros_like(block)
            for block, scale in zip(blocks, scales, strict=True)
        ]
        if not self.deviation:
            return clipped
        dtype = blocks[0].dtype
        noise = self.coins.blocks(rng, name, [block.shape for block in blocks], dtype)
        return [c + self.deviation * n for c, n in zip(clipped, noise, strict=True)]


def _scale(clip: float, norm: float) -> float:
    """What a reply is multiplied by; 0 where it has no length that can be told.

    A NaN in a weight that a client's data never meets (a word that nobody has) would otherwise
    let all the others leave as they are, whoever put it there.
    """
    if not math.isfinite(norm):
        return 0.0
    return min(1.0, clip / norm) if norm > 0 else 1.0


def _counted_alike(weight: Tensor | None) -> Tensor | None:
    """How much a client counts is a fact of its data too: all count the same, if anything."""
    return None if weight is None else (weight > 0).to(weight.dtype)


def _sent(name: str, leaf: Leaf, call: Call, row: Tree) -> Tensor | None:
    """What the clients were sent under a name ``[K, ...]``, if a reply is to be held against it."""
    found = row.get(name, call.shared.get(name))
    if not isinstance(found, Tensor) or not isinstance(leaf, Tensor):
        return None
    found = found if name in row else found.expand(len(leaf), *found.shape)
    return found if found.shape == leaf.shape else None


def _blocks(step: str, name: str, leaf: Leaf, sent: Tensor | None) -> list[Tensor]:
    """One tensor per client: what is clipped."""
    if not isinstance(leaf, Tensor | Ragged):
        raise AtollError(
            f"step '{step}' sends '{name}' as {type(leaf).__name__.lower()} numbers, and which of "
            f"them there are tells of the data whatever noise they get; set privacy.noise=0 and "
            f"privacy.clip=0, or choose another method or option (fed-pub: method.masks=false, "
            f"gfl-appnp: method.compensation=none)."
        )
    values = leaf if isinstance(leaf, Tensor) else leaf.values
    if not values.is_floating_point():
        raise AtollError(
            f"step '{step}' sends '{name}', whole numbers to which no noise can be added; choose "
            f"another method, or set privacy.noise=0 and privacy.clip=0."
        )
    if isinstance(leaf, Ragged):
        return list(leaf.blocks())
    return list(leaf if sent is None else leaf - sent)


def _joined(leaf: Leaf, blocks: list[Tensor], sent: Tensor | None) -> Leaf:
    if isinstance(leaf, Ragged):
        return Ragged(torch.cat(blocks), leaf.sizes)
    changed = torch.stack(blocks)
    return changed if sent is None else sent + changed


def _norm(blocks: Iterable[Tensor]) -> float:
    """The norm of several tensors as one vector."""
    return math.sqrt(sum(float(block.double().square().sum()) for block in blocks))
