"""The client's door: what every reply passes on its way out, whatever the method."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from atoll.cohort import Cohort
from atoll.federation.calls import Call, Performer, content_kinds
from atoll.federation.validation import Batch
from atoll.methods.base import Method
from atoll.privacy.clipping import Clipping, Strength
from atoll.privacy.node_level import refuse_other_uses, with_private_nodes
from atoll.privacy.noise import Coins, KeyedCoins
from atoll.privacy.protections import Privacy
from atoll.privacy.spending import Spending
from atoll.rng import CohortRng
from atoll.tree import Tree

if TYPE_CHECKING:
    from atoll.privacy.secure.masking import Masking
    from atoll.privacy.secure.signing import Signers

log = logging.getLogger("atoll")


class Unmasked(RuntimeError):
    """A request for a reply in the clear where only secure sums may leave."""


class Door:
    """A method's steps with the protections of an experiment around them.

    It stands where a method does, so a host of all clients and a site of one use it alike.
    """

    def __init__(
        self,
        method: Performer,
        privacy: Privacy,
        spending: Spending,
        coins: Coins,
        signers: Signers | None = None,
    ) -> None:
        self.method = method
        self.privacy = privacy
        self.spending = spending
        self.clipping = Clipping(privacy.clip, privacy.noise * privacy.clip, coins)
        self.masking = _masking(privacy, signers)
        self._warned: set[str] = set()

    @property
    def private(self) -> frozenset[str]:
        return self.method.private

    def first_state(self, cohort: Cohort, rng: CohortRng) -> Tree:
        return self.method.first_state(cohort, rng)

    def perform(
        self, call: Call, row: Tree, cohort: Cohort, state: Tree, rng: CohortRng
    ) -> tuple[Tree, Batch]:
        if self.masking is None:
            state, batch = self.method.perform(call, row, cohort, state, rng)
            return state, self._released(call, row, batch, rng)
        turn = self.masking.turn(call, row, cohort.clients)
        if turn is not None:
            return state, turn
        asked, own = self.masking.bare(call, row)
        state, batch = self.method.perform(asked, own, cohort, state, rng)
        if self.masking.is_summed(row):
            batch = self.masking.masked(call, row, self._released(asked, own, batch, rng))
        elif content_kinds(batch.body):
            raise Unmasked(f"step '{call.step}' would send {list(batch.body)} outside a secure sum")
        return state, batch

    def _released(self, call: Call, row: Tree, batch: Batch, rng: CohortRng) -> Batch:
        """Replies as anybody may see them, or their sum."""
        kinds = content_kinds(batch.body)
        if not kinds or self.privacy.unit == "node":
            return batch
        self.spending.spend(batch.clients, len(kinds))
        return self._clipped(call, row, batch, rng)

    def _clipped(self, call: Call, row: Tree, batch: Batch, rng: CohortRng) -> Batch:
        if not self.privacy.clip:
            return batch
        clipping = self.clipping
        if self.masking is not None and self.privacy.noise_at == "sum":
            # At least so many add their part, and their variances add up.
            parts = self.masking.threshold(batch.clients)
            clipping = replace(clipping, deviation=clipping.deviation / math.sqrt(parts))
        batch, strengths = clipping.applied(call, row, batch, rng)
        self._warn(call, strengths)
        return batch

    def _warn(self, call: Call, strengths: dict[str, Strength]) -> None:
        """Say once per kind that noise drowns what it is added to."""
        for which, strength in strengths.items():
            what = f"{call.step}/{which}"
            if strength.noise > strength.signal and what not in self._warned:
                self._warned.add(what)
                log.warning(
                    "round %d: the noise on '%s' of step '%s' has norm %.3g, more than what it "
                    "hides (%.3g after clipping); expect little of such a model: lower "
                    "privacy.noise, train fewer rounds or a smaller model.",
                    call.round, which, call.step, strength.noise, strength.signal,
                )  # fmt: skip


def _masking(privacy: Privacy, signers: Signers | None) -> Masking | None:
    if not privacy.secure_sum:
        return None
    from atoll.privacy.secure.masking import Masking

    return Masking(privacy.threshold, signers)


def guarded(
    method: Performer,
    privacy: Privacy,
    coins: Coins | None = None,
    spending: Spending | None = None,
    signers: Signers | None = None,
) -> Performer:
    """A method behind its door, if there is something to guard.

    ``signers`` sign in secure sums; without any, clients are simulated.
    """
    if not privacy.at_the_door:
        return method
    coins, spending = coins or KeyedCoins(), spending or Spending(privacy)
    if privacy.unit == "node":
        assert isinstance(method, Method)
        refuse_other_uses(method)  # at a site, too: who submits a run need not have looked
        method = with_private_nodes(method, privacy, spending, coins)
    return Door(method, privacy, spending, coins, signers)
