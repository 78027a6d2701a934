"""The federation over a fleet: deadlines, a quorum, and sites that come and go."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from atoll.deploy.evidence.sealing import SEAL
from atoll.deploy.fleet import DISHONEST, NO_REPLY, OTHER_CIRCLE, REFUSALS, Fleet
from atoll.errors import AtollError, NoReplies
from atoll.federation.calls import Call
from atoll.federation.codec import Answer, BadMessage, Request, step_batch, step_request
from atoll.federation.protocol import Federation
from atoll.federation.validation import Batch
from atoll.tree import Tree, take

log = logging.getLogger("atoll")
_BETWEEN_LOOKS = 1.0
# A site whose replies are left out in so many rounds is asked no more.
_OFFENCES = 3


class BelowQuorum(AtollError):
    """Too few sites answered for the round to count."""


class Remote(Federation):
    """Client k is the site ``sites[k]``. A site that fails a request sits out the round.

    At the start of every round the missing sites are looked for again. ``attempt`` goes up whenever
    a round is begun anew: sites then return to their state before it.

    Nothing that a site sends can stop the run: a reply that can't be used is left out, the quorum
    counts the others, and a site that keeps sending such replies is suspended, with its name and
    the last reason on record.
    """

    strangers: ClassVar[bool] = True

    def __init__(
        self,
        fleet: Fleet,
        sites: Sequence[str],
        seed: int,
        run: str,
        *,
        deadline: float,
        quorum: int,
        attempt: int = 0,
    ) -> None:
        super().__init__(range(len(sites)), seed)
        self.fleet = fleet
        self.sites = tuple(sites)
        self.run = run
        self.deadline = deadline
        self.quorum = quorum
        self.attempt = attempt
        # The best round so far, which sites are told, so that they keep the models they had then.
        self.best = 0
        self.missing: dict[str, str] = {}
        self.suspended: dict[str, str] = {}
        self._offences: dict[str, set[int]] = {}
        # Whether the last sum was refused because it was made over other sites before.
        self._bound = False

    @property
    def present(self) -> tuple[str, ...]:
        gone = self.missing | self.suspended
        return tuple(site for site in self.sites if site not in gone)

    @property
    def hopeless(self) -> bool:
        """Whether no waiting can bring a quorum about."""
        return len(self.sites) - len(self.suspended) < self.quorum

    def gather(self, patience: float, stopped: Callable[[], bool] = lambda: False) -> None:
        """Look for missing sites; wait for a quorum, and stop if it does not come about."""
        until = time.monotonic() + patience
        warned = False
        while True:
            if self.missing:
                for site in self.fleet.present(set(self.missing) - set(self.suspended)):
                    log.warning("site '%s' is back.", site)
                    del self.missing[site]
            if len(self.present) >= self.quorum or stopped():
                return
            if self.hopeless:
                raise BelowQuorum(self.shortage())
            if not warned:
                log.warning("%s; waiting for up to %.0f s.", self.shortage(), patience)
                warned = True
            if time.monotonic() > until:
                raise BelowQuorum(self.shortage())
            time.sleep(_BETWEEN_LOOKS)

    def shortage(self) -> str:
        """Who is missing, in words."""
        gone = self.missing | {s: f"suspended, {why}" for s, why in self.suspended.items()}
        missing = "; ".join(f"{site}: {why}" for site, why in gone.items())
        return (
            f"{len(self.present)} of {len(self.sites)} sites take part, fewer than the quorum of "
            f"{self.quorum} ({missing})"
        )

    def miss(self, site: str, why: str) -> None:
        self.missing[site] = why
        log.warning("site '%s' is left out: %s.", site, why)

    def reject(self, step: str, client: int, reason: str) -> None:
        super().reject(step, client, reason)
        self._offended(self.sites[client], reason)

    def _offended(self, site: str, reason: str) -> None:
        """Put on record that a site sent what no honest one sends."""
        rounds = self._offences.setdefault(site, set())
        rounds.add(self.round)
        if len(rounds) >= _OFFENCES and site not in self.suspended:
            self.suspend(site, f"its replies were left out in {len(rounds)} rounds: {reason}")

    def suspend(self, site: str, why: str) -> None:
        """A site that is asked no more until the run is resumed."""
        self.suspended[site] = why
        log.warning("site '%s' is suspended: %s; have its operator look, then resume.", site, why)

    def ask_sites(
        self,
        ask: str,
        requests: dict[str, Request],
        deadline: float | None = None,
        largest: int | None = None,
    ) -> dict[str, Answer]:
        """Exchange requests with present sites; those that fail are missing from now on.

        ``largest`` is how many bytes an answer has at most.
        """
        seconds = self.deadline if deadline is None else deadline
        requests = {site: self._with_seal(site, request) for site, request in requests.items()}
        good, bad = self.fleet.answers(requests, seconds, largest)
        self._bound = OTHER_CIRCLE in bad.values()
        for site, answer in good.items():
            self._note_seal(site, requests[site], answer)
        for site, why in bad.items():
            if why == OTHER_CIRCLE and requests[site].ask == "step":  # the site is there
                continue
            self.miss(site, f"{why} ('{ask}')")
            if why in DISHONEST:
                self._offended(site, why)
            if why in REFUSALS:
                self.suspend(site, why)
        return good

    def _with_seal(self, site: str, request: Request) -> Request:
        """A request with the seal of the record so far, where one is due to its site."""
        record, last = self.fleet.record, request.ask == "finish"
        if record is None or not (last or request.ask == "step"):
            return request
        seal = record.seal(site, self.round, last)
        return request if seal is None else replace(request, facts={**request.facts, SEAL: seal})

    def _note_seal(self, site: str, request: Request, answer: Answer) -> None:
        record, sent = self.fleet.record, request.facts.get(SEAL)
        if record is None or sent is None:
            return
        voice = self.fleet.voice
        key = voice.roster.sites[site].signs if voice else ""
        if not record.countersigned(site, sent, answer.facts.get(SEAL), key):
            log.warning("site '%s' did not countersign the record of messages; see its log.", site)

    def reached(self, to: tuple[int, ...]) -> tuple[int, ...]:
        present = self.present
        return tuple(client for client in to if self.sites[client] in present)

    def deliver(self, call: Call, to: tuple[int, ...], each: Tree) -> Iterator[Batch]:
        requests = {
            self.sites[client]: step_request(
                call, take(each, [i]), self.run, self.attempt, self.best
            )
            for i, client in enumerate(to)
        }
        answers = self.ask_sites(call.step, requests, largest=call.largest_reply)
        dead = {c for c in to if self.missing.get(self.sites[c], "").startswith(NO_REPLY)}
        self.ledger.never_came(call.round, call.step, dead)
        # In the order of ``to``, so that sums do not depend on the order of arrival.
        for client in to:
            answer = answers.get(self.sites[client])
            if answer is None:
                continue
            try:
                batch = step_batch(client, answer)
            except BadMessage as problem:
                self.reject(call.step, client, str(problem))
                continue
            except Exception as problem:  # whatever a site sends, the others go on
                why = f"it can't be read ({type(problem).__name__})"
                self.reject(call.step, client, why)
                continue
            yield batch

    def enough(self, used: int, asked: int) -> None:
        if used < min(self.quorum, asked):
            if self._bound:  # to wait for the others would be to wait for good
                raise NoReplies(
                    "a sum that is begun anew among other sites than before would show what single "
                    "sites sent, so the sites refuse it"
                )
            raise BelowQuorum(self.shortage())
