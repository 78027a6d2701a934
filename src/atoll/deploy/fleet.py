"""What an engine must offer to carry a federation: exchange bytes with sites, within a deadline."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping

from atoll.deploy.envelope import OVERHEAD, Forged
from atoll.deploy.evidence.messages import UNRECORDED
from atoll.deploy.evidence.sealing import ServerRecord
from atoll.deploy.voice import Voice
from atoll.federation.codec import Answer, Request, decode_answer

_DAMAGED, _TOO_LARGE = "a damaged reply", "a reply larger than any good one"
NO_REPLY = "no reply in time"
# What an honest site does not send.
DISHONEST = frozenset({_DAMAGED, _TOO_LARGE})

# Errors of a site that have a meaning for whoever runs the federation: it will not do otherwise
# when it is asked again.
# It said so for this circle of sites, and goes on in the next sum.
OTHER_CIRCLE = "it has summed the same among other sites"
REFUSED = "it refused; its operator sees why in its log"
_KNOWN = {
    "PluginNotAdmitted": "it does not admit the run's plug-in; see its log",
    "TooFarBack": "its state is rounds ahead of this run's, whose checkpoints were lost",
    "AtollError": "it refuses, and says why in its log",
    "Refused": REFUSED,
    "BudgetSpent": "its privacy budget is spent",
}
REFUSALS = frozenset(_KNOWN.values())
_KNOWN["OtherCircle"] = OTHER_CIRCLE


class EngineFailed(Exception):
    """The engine does not carry this job's messages any more; in another job it may."""


class Fleet(ABC):
    """The sites as the coordinator reaches them. An engine's adapter is one subclass of this.

    ``voice`` signs what is sent and checks who has signed what comes back, ``record`` gets every
    message; a coordinator gives its own. What the adapter carries is bytes either way.
    """

    voice: Voice | None = None
    record: ServerRecord | None = None

    @abstractmethod
    def exchange(self, messages: Mapping[str, bytes], seconds: float) -> Mapping[str, bytes]:
        """Send each site its message and collect what comes back in time; the others are missing.

        Returns as soon as all have answered, and after ``seconds`` at the latest. An engine that
        fails itself, not a site, is :class:`EngineFailed`.
        """

    @abstractmethod
    def present(self, sites: Collection[str]) -> set[str]:
        """Which of these sites would answer now. Takes a few seconds at most."""

    def within_reach(self, sites: Collection[str]) -> set[str]:
        """Which of these sites could ever answer; an engine may have left some out of its job."""
        return set(sites)

    def answers(
        self, requests: Mapping[str, Request], seconds: float, largest: int | None = None
    ) -> tuple[dict[str, Answer], dict[str, str]]:
        """What sites answer in time, and why the others do not count.

        Answers of more than ``largest`` bytes are not opened.
        """
        good: dict[str, Answer] = {}
        bad: dict[str, str] = {}
        if self.voice is not None:
            strangers = (site for site in requests if not self.voice.knows(site))
            bad = dict.fromkeys(strangers, "it is not on the roster")
        encoded = {
            site: request.encode() if self.voice is None else self.voice.asks(site, request)
            for site, request in requests.items()
            if site not in bad
        }
        for site in encoded:
            if self.record is not None and requests[site].ask != UNRECORDED:
                self.record.sending(site, requests[site], requests[site].encode())
        replies = self.exchange(encoded, seconds)
        for site in encoded:
            request, reply = requests[site], replies.get(site)
            if reply is None:
                bad[site] = NO_REPLY
                continue
            if largest is not None and len(reply) > largest + OVERHEAD:
                bad[site] = _TOO_LARGE
                continue
            if not reply and self.voice is not None:
                bad[site] = "it refused the request; see its log"
                continue
            try:
                content = reply if self.voice is None else self.voice.hears(site, request, reply)
            except Forged:
                bad[site] = "a reply that it has not signed"
                continue
            answer = _read(content)
            if self.record is not None and request.ask != UNRECORDED:
                self.record.received(site, request, answer, content)
            if answer is None:
                bad[site] = _DAMAGED
                continue
            if answer.id != request.id and not answer.error:
                bad[site] = "a reply to an earlier request"
            elif answer.error:
                bad[site] = _KNOWN.get(answer.error, f"{_class_name(answer.error)} at the site")
            else:
                good[site] = answer
        return good, bad

    def pinged(self, sites: Collection[str], seconds: float) -> set[str]:
        """The sites that answer a ping and are not at work on an earlier request."""
        good, _ = self.answers({site: Request("ping") for site in sites}, seconds)
        return {site for site, answer in good.items() if not answer.facts.get("busy")}


def _read(content: bytes) -> Answer | None:
    """What a site has signed; None if that is no answer. Whatever it sends, the others go on."""
    try:
        return decode_answer(content)
    except Exception:
        return None


def _class_name(error: str) -> str:
    """What a site sends as an error is shown only if it can be a class name."""
    return error if error.isidentifier() and len(error) <= 80 else "an error"
