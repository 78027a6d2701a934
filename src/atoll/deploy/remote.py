"""The federation over a fleet: deadlines, a quorum, and sites that come and go."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence

from atoll.deploy.fleet import Fleet
from atoll.errors import AtollError
from atoll.federation.codec import Answer, BadMessage, Request, step_batch, step_request
from atoll.federation.protocol import Call, Federation
from atoll.federation.validation import Batch, Rejection
from atoll.tree import Tree, take

log = logging.getLogger("atoll")
_BETWEEN_LOOKS = 1.0


class BelowQuorum(AtollError):
    """Too few sites answered for the round to count."""


class Remote(Federation):
    """Client k is the site ``sites[k]``. A site that fails a request sits out the round.

    At the start of every round the missing sites are looked for again. ``attempt`` goes up whenever
    a round is begun anew: sites then return to their state before it.
    """

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
        self.missing: dict[str, str] = {}

    @property
    def present(self) -> tuple[str, ...]:
        return tuple(site for site in self.sites if site not in self.missing)

    def gather(self, patience: float, stopped: Callable[[], bool] = lambda: False) -> None:
        """Look for missing sites; wait for a quorum, and stop if it does not come about."""
        until = time.monotonic() + patience
        warned = False
        while True:
            if self.missing:
                for site in self.fleet.present(tuple(self.missing)):
                    log.warning("site '%s' is back.", site)
                    del self.missing[site]
            if len(self.present) >= self.quorum or stopped():
                return
            if not warned:
                log.warning("%s; waiting for up to %.0f s.", self.shortage(), patience)
                warned = True
            if time.monotonic() > until:
                raise BelowQuorum(self.shortage())
            time.sleep(_BETWEEN_LOOKS)

    def shortage(self) -> str:
        """Who is missing, in words."""
        missing = "; ".join(f"{site}: {why}" for site, why in self.missing.items())
        return (
            f"{len(self.present)} of {len(self.sites)} sites take part, fewer than the quorum of "
            f"{self.quorum} ({missing})"
        )

    def miss(self, site: str, why: str) -> None:
        self.missing[site] = why
        log.warning("site '%s' is left out: %s.", site, why)

    def ask_sites(
        self, ask: str, requests: dict[str, Request], deadline: float | None = None
    ) -> dict[str, Answer]:
        """Exchange requests with present sites; those that fail are missing from now on."""
        good, bad = self.fleet.answers(requests, self.deadline if deadline is None else deadline)
        for site, why in bad.items():
            self.miss(site, f"{why} ('{ask}')")
        return good

    def deliver(self, call: Call, to: tuple[int, ...], each: Tree) -> Iterator[Batch]:
        requests = {
            self.sites[client]: step_request(call, take(each, [i]), self.run, self.attempt)
            for i, client in enumerate(to)
            if self.sites[client] not in self.missing
        }
        answers = self.ask_sites(call.step, requests)
        usable = {}
        for site, answer in answers.items():
            client = self.sites.index(site)
            try:
                usable[site] = step_batch(client, answer)
            except BadMessage as problem:
                self.rejections.append(Rejection(self.round, call.step, client, str(problem)))
                log.warning(
                    "site '%s': its reply to '%s' is left out: %s.", site, call.step, problem
                )
        if len(usable) < min(self.quorum, len(to)):
            raise BelowQuorum(self.shortage())
        # In the order of ``to``, so that sums do not depend on the order of arrival.
        yield from (usable[self.sites[c]] for c in to if self.sites[c] in usable)
