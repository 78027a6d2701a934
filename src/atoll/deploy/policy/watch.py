"""A policy enforced on every message of a run: declared steps only, in order, number and form.

What a site has performed and sent is kept on its disk, so that a restart forgets nothing. The
bytes of all runs together lie beside the runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atoll.archive import pack
from atoll.deploy.durable import MOST_ROUNDS_BACK, Durable
from atoll.deploy.policy.declared import Declared
from atoll.deploy.policy.forms import forms_of, size_of
from atoll.deploy.policy.judging import Refused
from atoll.deploy.policy.rules import ALL, Policy
from atoll.federation.calls import Call
from atoll.federation.codec import Answer, Request
from atoll.tree import Leaf, kind

_PERFORMED, _TOTAL = "performed", "sent"


class Sent:
    """What left this site in all its runs."""

    def __init__(self, state: Path) -> None:
        self._durable = Durable(state)

    @property
    def bytes(self) -> int:
        return int((self._durable.facts(_TOTAL) or {}).get("bytes", 0))

    def add(self, size: int, most: int, policy: str) -> None:
        """Counted before anything is sent: what is refused does not leave."""
        total = self.bytes + size
        if total > most:
            raise Refused(
                f"{policy} lets {most:,} bytes leave this site in all its runs, and {total:,} would"
                f" have left; raise leaving.bytes_in_all if you mean to go on."
            )
        self._durable.keep_facts(_TOTAL, {"bytes": total})


class Watch:
    """The steps of one run at one site, as they are asked for."""

    def __init__(
        self,
        policy: Policy,
        steps: Declared,
        rounds: int,
        durable: Durable,
        sent: Sent,
    ) -> None:
        self.policy = policy
        self.steps = steps
        self.rounds = rounds
        self.durable = durable
        self.sent = sent
        facts = durable.facts(_PERFORMED) or {}
        self.attempt = int(facts.get("attempt", -1))
        self.round = int(facts.get("round", 0))
        self.highest = int(facts.get("highest", 0))
        self._known_already = False
        # The steps of this round and attempt so far.
        self.so_far: list[str] = [str(step) for step in facts.get("so_far", [])]
        # Digests of what was asked in the last rounds, by round and place.
        self.asked: dict[str, dict[str, str]] = facts.get("asked", {})
        self.repeats: dict[str, int] = facts.get("repeats", {})
        self.bytes: dict[str, int] = facts.get("bytes", {})
        # When a step that does not come in every round came last.
        self.last: dict[str, int] = facts.get("last", {})

    def admit(self, request: Request, call: Call) -> None:
        """Refuse a step that is not due, before it is performed."""
        name, r = f"'{call.step}' of round {call.round}", call.round
        if call.step not in self.steps.steps:
            raise self._refused(f"{name} is no step that the method takes")
        if not 1 <= r <= self.rounds:
            raise self._refused(f"{name} is beyond the run's {self.rounds} rounds")
        if r < self.highest - MOST_ROUNDS_BACK:
            raise self._refused(f"{name} is asked for after round {self.highest}")
        before = [] if (request.attempt, r) != (self.attempt, self.round) else self.so_far
        last = {step: at for step, at in self.last.items() if at < r or not self._anew(request)}
        if not self._in_order([*before, call.step]):
            raise self._refused(f"{name} comes after {before or 'nothing'}, which is not its order")
        self._refuse_too_early(call, last)
        wrong = self.steps.refusal(call.step, forms_of(request.tree))
        if wrong:
            raise self._refused(f"{name} is not as the method declares it: {wrong}")
        self._count_repeat(call, len(before), digest(request))
        self.attempt, self.round, self.so_far = request.attempt, r, [*before, call.step]
        self.highest = max(self.highest, r)
        self.last = last | ({call.step: r} if call.step in self.steps.seldom else {})
        self._keep()

    def release(self, call: Call, answer: Answer) -> None:
        """Refuse an answer that is not as declared, or too much; count what leaves."""
        name, rules = f"the answer to '{call.step}' of round {call.round}", self.policy.leaving
        wrong = self.steps.misreply(call.step, forms_of(answer.tree))
        if wrong:
            raise self._refused(f"{name} is not as the method declares it: {wrong}")
        odd = sorted(_kinds(answer.tree) - set(rules.kinds)) if ALL not in rules.kinds else []
        if odd:
            raise self._refused(f"{name} holds {odd[0]}, a kind that may not leave")
        size = size_of(answer.tree)
        in_round = self.bytes.get(str(call.round), 0) + size * (not self._known_already)
        if in_round > rules.bytes_per_round:
            raise self._refused(
                f"{in_round:,} bytes would have left in round {call.round}, more than the "
                f"{rules.bytes_per_round:,} of leaving.bytes_per_round"
            )
        self.sent.add(size, rules.bytes_in_all, self.policy.name)
        self.bytes[str(call.round)] = in_round
        self._keep()

    def _anew(self, request: Request) -> bool:
        return request.attempt != self.attempt

    def _in_order(self, steps: list[str]) -> bool:
        return any(_is_part(steps, sequence) for sequence in self.steps.sequences)

    def _refuse_too_early(self, call: Call, last: Mapping[str, int]) -> None:
        if call.step not in self.steps.seldom or call.step not in last:
            return
        since, interval = call.round - last[call.step], self.steps.seldom[call.step]
        if since and (not interval or since < interval):
            often = f"every {interval} rounds" if interval else "in one round of a run"
            raise self._refused(
                f"'{call.step}' is taken {often}, and was in round {last[call.step]}; now it is "
                f"asked for in round {call.round}"
            )

    def _count_repeat(self, call: Call, place: int, asked: str) -> None:
        """The same request gives the same answer; another one is a further look at the data."""
        r, where = str(call.round), f"{place} {call.step}"
        known = self.asked.setdefault(r, {})
        self._known_already = known.get(where) == asked
        if where in known and known[where] != asked:
            self.repeats[r] = self.repeats.get(r, 0) + 1
            if self.repeats[r] > self.policy.leaving.repeats:
                raise self._refused(
                    f"steps of round {r} were asked for anew {self.repeats[r]} times with other "
                    f"content, more often than the {self.policy.leaving.repeats} of leaving.repeats"
                )
        known[where] = asked

    def _refused(self, why: str) -> Refused:
        return Refused(f"refused under {self.policy.name}: {why}.")

    def _keep(self) -> None:
        oldest = self.highest - MOST_ROUNDS_BACK
        self.asked = {r: entry for r, entry in self.asked.items() if int(r) >= oldest}
        self.repeats = {r: entry for r, entry in self.repeats.items() if int(r) >= oldest}
        self.bytes = {r: entry for r, entry in self.bytes.items() if int(r) >= oldest}
        self.durable.keep_facts(
            _PERFORMED,
            {
                "attempt": self.attempt,
                "round": self.round,
                "highest": self.highest,
                "so_far": self.so_far,
                "asked": self.asked,
                "repeats": self.repeats,
                "bytes": self.bytes,
                "last": self.last,
            },
        )


def digest(request: Request) -> str:
    """Of what a step is asked with, whoever asks when."""
    facts: dict[str, Any] = {key: request.facts[key] for key in ("step", "round", "nth")}
    return hashlib.sha256(pack(request.tree, facts)).hexdigest()


def _kinds(tree: Mapping[str, Leaf]) -> set[str]:
    return {kind(name.removeprefix("body/")) for name in tree if name != "weight"}


def _is_part(steps: list[str], sequence: tuple[str, ...]) -> bool:
    """Whether steps come in a sequence in this order, perhaps with others in between."""
    rest = iter(sequence)
    return all(step in rest for step in steps)
