"""What an engine must offer to carry a federation: exchange bytes with sites, within a deadline."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping

from atoll.federation.codec import Answer, BadMessage, Request, decode_answer


class Fleet(ABC):
    """The sites as the coordinator reaches them. An engine's adapter is one subclass of this."""

    @abstractmethod
    def exchange(self, messages: Mapping[str, bytes], seconds: float) -> Mapping[str, bytes]:
        """Send each site its message and collect what comes back in time; the others are missing.

        Returns as soon as all have answered, and after ``seconds`` at the latest.
        """

    @abstractmethod
    def present(self, sites: Collection[str]) -> set[str]:
        """Which of these sites would answer now. Takes a few seconds at most."""

    def within_reach(self, sites: Collection[str]) -> set[str]:
        """Which of these sites could ever answer; an engine may have left some out of its job."""
        return set(sites)

    def answers(
        self, requests: Mapping[str, Request], seconds: float
    ) -> tuple[dict[str, Answer], dict[str, str]]:
        """What sites answer in time, and why the others do not count."""
        encoded = {site: request.encode() for site, request in requests.items()}
        replies = self.exchange(encoded, seconds)
        good: dict[str, Answer] = {}
        bad: dict[str, str] = {}
        for site, request in requests.items():
            reply = replies.get(site)
            if reply is None:
                bad[site] = "no reply in time"
                continue
            try:
                answer = decode_answer(reply)
            except BadMessage:
                bad[site] = "a damaged reply"
                continue
            if answer.id != request.id and not answer.error:
                bad[site] = "a reply to an earlier request"
            elif answer.error:
                bad[site] = f"{_class_name(answer.error)} at the site"
            else:
                good[site] = answer
        return good, bad

    def pinged(self, sites: Collection[str], seconds: float) -> set[str]:
        """The sites that answer a ping and are not at work on an earlier request."""
        good, _ = self.answers({site: Request("ping") for site in sites}, seconds)
        return {site for site, answer in good.items() if not answer.facts.get("busy")}


def _class_name(error: str) -> str:
    """What a site sends as an error is shown only if it can be a class name."""
    return error if error.isidentifier() and len(error) <= 80 else "an error"
