"""The server's side of secure sums: it relays keys and shares, and learns a sum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from atoll.errors import AtollError, NoReplies
from atoll.federation.calls import Replies, Total, content_kinds
from atoll.federation.protocol import Averaging, Federation
from atoll.ops.similarity import mixed
from atoll.privacy.secure.fixed_point import decoded
from atoll.privacy.secure.masking import (
    AGREE,
    BOX,
    KEYS,
    PARTS_OF_KEYS,
    SECURE,
    SHARES,
    UNMASK,
    keys_of,
)
from atoll.privacy.secure.party import threshold_of, unmasked
from atoll.privacy.secure.primitives import SEED, Broken, seed_of
from atoll.privacy.secure.signing import SIGNATURE, Peers, Simulated
from atoll.tree import Params, Tree, flat, nested, take


class SecureSum(Averaging):
    """The protocol of Bonawitz et al. (2017) for one sum, with fresh keys for each.

    1. Clients send public keys, signed, which all get.
    2. Each sends every other its shares of two seeds, sealed; each gets those meant for it.
    3. Each sends its numbers under masks of which the pairwise ones cancel in the sum.
    4. Those who are left sign the list of who answered.
    5. They reveal the shares that take the remaining masks away, once they have seen that enough
       have signed the same list.

    Who falls silent after step 1 may be up to ``n - t`` of n, with the threshold t; one more, and
    the sum is given up and can't be read by anybody. ``peers`` are those whose signatures count:
    clients check them all, and the server leaves out by itself who would make them refuse.
    """

    def __init__(self, share: float, peers: Peers | None = None) -> None:
        self.share = share
        self.peers = peers or Simulated()

    def admit(self, step: str, expect: Tree) -> None:
        seen = content_kinds(expect)
        if seen:
            raise AtollError(
                f"the step '{step}' shows the server the {_and(seen)} of every client, which "
                f"privacy.secure_sum rules out; choose a method that needs sums only (atoll audit "
                f"says which do)."
            )

    def mixed(self, alpha: Tensor, values: Params, sent: Params) -> Params:
        return mixed(alpha, values)

    def total(self, fed: Federation, step: str, request: Mapping[str, Any]) -> Total:
        keys = self._keys(fed, step, request.get("to"))
        threshold = threshold_of(self.share, len(keys.clients))
        round_of_keys = _sent_round(keys)
        boxes = fed.ask(
            SHARES,
            to=keys.clients,
            shared={SECURE: round_of_keys},
            expect={SECURE: {"boxes": torch.zeros(len(keys.clients), BOX, dtype=torch.uint8)}},
        )
        self._enough(step, "shares", len(boxes.clients), threshold)
        answered, masked = self._masked(fed, step, request, keys.clients, boxes)
        self._enough(step, "masked numbers", len(answered), threshold)
        seeds = self._seeds(fed, step, keys.clients, boxes.clients, answered, threshold)
        try:
            known = keys_of(flat({SECURE: round_of_keys}))
            bare = unmasked(masked, known, boxes.clients, answered, seeds)
        except Broken as problem:
            raise NoReplies(f"the secure sum of '{step}' came to nothing: {problem}.") from problem
        return _as_total(step, decoded(bare), flat(request["expect"]), len(answered))

    def _keys(self, fed: Federation, step: str, to: Any) -> Replies:
        session = self.peers.session(fed.round, fed.asked(KEYS))
        parts = {p: torch.zeros(size, dtype=torch.uint8) for p, size in PARTS_OF_KEYS.items()}
        keys = fed.ask(KEYS, to=to, expect={SECURE: parts})
        strangers = []
        for client, theirs in keys_of(flat({SECURE: _sent_round(keys)})).items():
            if not theirs.are_signed(session, client, self.peers):
                fed.reject(KEYS, client, "it has not signed its keys of a sum")
                strangers.append(client)
        keys = keys.without(strangers)
        if len(keys.clients) < 2:
            raise NoReplies(
                f"a secure sum of '{step}' takes two clients or more, and {len(keys.clients)} "
                f"takes part: it would show what is to be hidden."
            )
        return keys

    def _masked(
        self,
        fed: Federation,
        step: str,
        request: Mapping[str, Any],
        everybody: tuple[int, ...],
        boxes: Replies,
    ) -> tuple[tuple[int, ...], np.ndarray]:
        """Who answered the step itself, and the sum of what they sent."""
        sharing, expect = boxes.clients, flat(request["expect"])
        columns = [everybody.index(client) for client in sharing]
        inbox = boxes[SECURE]["boxes"][:, columns].transpose(0, 1).contiguous()
        targets = list(fed.clients if request.get("to") is None else request["to"])
        rows = take(flat(request.get("each") or {}), [targets.index(c) for c in sharing])
        shared = dict(request.get("shared") or {})
        size = sum(leaf.numel() for leaf in expect.values()) + 2
        total = np.zeros(size, dtype=np.uint64)
        answered: list[int] = []
        for batch, part in fed.exchanged(
            "sum",
            step,
            {f"{SECURE}/masked": torch.zeros(size, dtype=torch.int64)},
            shared=shared | {SECURE: {"sharing": torch.tensor(sharing)}},
            each=rows | {f"{SECURE}/inbox": inbox},
            to=sharing,
            use=lambda batch: (batch, _added(batch.body[f"{SECURE}/masked"])),
        ):
            np.add(total, part, out=total)
            answered += batch.clients
            fed.released(batch.clients, expect)
        return tuple(answered), total

    def _seeds(
        self,
        fed: Federation,
        step: str,
        everybody: tuple[int, ...],
        sharing: tuple[int, ...],
        answered: tuple[int, ...],
        threshold: int,
    ) -> dict[int, bytes]:
        """The seeds of the masks that are left, from the shares of those who are."""
        lists = {"answered": torch.tensor(answered), "sharing": torch.tensor(sharing)}
        signed = fed.ask(
            AGREE,
            to=answered,
            shared={SECURE: lists},
            expect={SECURE: {"signature": torch.zeros(SIGNATURE, dtype=torch.uint8)}},
        )
        self._enough(step, "signatures of who answered", len(signed.clients), threshold)
        agreeing = {
            "agreeing": torch.tensor(signed.clients),
            "signature": signed[SECURE]["signature"],
        }
        replies = fed.ask(
            UNMASK,
            to=signed.clients,
            shared={SECURE: lists | agreeing},
            expect={SECURE: {"shares": torch.zeros(len(sharing), SEED, dtype=torch.uint8)}},
        )
        self._enough(step, "shares of seeds", len(replies.clients), threshold)
        places = {client: sorted(everybody).index(client) for client in replies.clients}
        shares = replies[SECURE]["shares"].cpu().numpy()
        return {
            client: seed_of(
                {places[c]: shares[i, j].tobytes() for i, c in enumerate(replies.clients)},
                threshold,
            )
            for j, client in enumerate(sharing)
        }

    def _enough(self, step: str, what: str, have: int, threshold: int) -> None:
        if have < threshold:
            raise NoReplies(
                f"the secure sum of '{step}' is given up: {have} clients sent {what}, and it takes "
                f"{threshold} (privacy.threshold = {self.share:g}); nobody can read what was sent."
            )


def _sent_round(keys: Replies) -> dict[str, Tensor]:
    """Everybody's keys as all get them."""
    parts = {part: keys[SECURE][part] for part in PARTS_OF_KEYS}
    return {"clients": torch.tensor(keys.clients), **parts}


def _added(masked: Any) -> np.ndarray:
    """The sum of some rows modulo 2^64."""
    total: np.ndarray = masked.cpu().numpy().view(np.uint64).sum(axis=0, dtype=np.uint64)
    return total


def _as_total(step: str, numbers: Tensor, expect: Tree, count: int) -> Total:
    """The mean, the weight and the count that a sum stands for."""
    weight, counted = float(numbers[-2]), float(numbers[-1])
    if round(counted) != count:
        raise NoReplies(f"the secure sum of '{step}' came to nothing: a share of a mask was wrong.")
    if weight <= 0:
        raise NoReplies(f"no client gave a usable reply to '{step}': all weigh nothing.")
    mean: Params = {}
    start = 0
    for name in sorted(expect):
        like = expect[name]
        assert isinstance(like, Tensor)
        part = numbers[start : start + like.numel()] / weight
        mean[name] = part.view(like.shape).to(like.dtype)
        start += like.numel()
    return Total(nested({name: mean[name] for name in expect}), weight, count)


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
