"""What sites and coordinator tell each other before the first round, and when a site comes back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from atoll.deploy.admission import on_the_wire
from atoll.deploy.anchors import matched_anchors
from atoll.deploy.fleet import REFUSED
from atoll.deploy.hello import is_count, misstatement
from atoll.deploy.journal import Journal
from atoll.deploy.plan import Plan
from atoll.deploy.positive import agreed
from atoll.deploy.remote import Remote
from atoll.errors import AtollError
from atoll.experiment.config import describe
from atoll.experiment.result import Size
from atoll.federation.codec import Answer, Request
from atoll.federation.validation import log
from atoll.methods.base import Info

# What all sites must have alike.
_ALIKE = ("features", "classes", "names")
# What a site counts by.
_COUNTED = ("nodes", "train")
# What sites answer without tensors is a few numbers and names.
_LARGEST_WORD = 2**16


class Introductions:
    """Learns the sites' sizes, has anchors matched, and lets every site know what the run is."""

    def __init__(self, plan: Plan, fed: Remote, journal: Journal) -> None:
        self.plan = plan
        self.fed = fed
        self.journal = journal
        self.method = plan.experiment.method
        self.anchors: tuple[np.ndarray, ...] = ()
        self.positive = -1  # of two classes the one that the run is about
        self.metric = ""

    def begin(self, answers: dict[str, Answer]) -> tuple[Info, list[Size]]:
        """What the method's server is to know, given what sites have said of themselves."""
        known = self.journal.sites()
        for site, answer in answers.items():
            if site not in known or self._keeps_its_word(site, known[site], answer.facts, _COUNTED):
                known[site] = dict(answer.facts) | _labelled(known.get(site, {}))
        _refuse_different(known)
        self.journal.keep_sites(known)
        found = self.journal.agreed(partial(agreed, known, self.plan.experiment))
        self.positive, self.metric = found["positive"], found["metric"]
        if found["said"]:
            log.warning("%s", found["said"])
        method = self.method
        if method.needs_anchors:  # nobody matches anything for a run that it refuses
            self._announce("propose", self.fed.present)
            self._stop_if_refused()
            nodes = {site: int(facts["nodes"]) for site, facts in known.items()}
            self.anchors = self.journal.anchors(partial(matched_anchors, self.fed, nodes))
        self._introduce(self.fed.present)
        self._stop_if_refused()
        first = known[next(iter(known))]
        info = Info(
            len(self.plan.sites),
            int(first["features"]),
            int(first["classes"]),
            getattr(torch, self.plan.experiment.run.dtype),
            self.anchors,
            self.journal.network(method.registered_name) if method.needs_network else None,
        )
        blank = {"nodes": 0, "train": 0}
        sizes = [known.get(site, blank) for site in self.plan.sites]
        return info, [Size(int(facts["nodes"]), int(facts["train"])) for facts in sizes]

    def greeted(self, sites: Collection[str]) -> dict[str, Answer]:
        """What sites report of themselves; one that can't be believed is asked no more."""
        requests = {site: Request("hello", self.plan.run, self.fed.attempt) for site in sites}
        answers = self.fed.ask_sites("hello", requests, largest=_LARGEST_WORD)
        for site, answer in list(answers.items()):
            if wrong := misstatement(answer.facts):
                self.fed.suspend(site, wrong)
                del answers[site]
        return answers

    def welcome(self, back: set[str]) -> None:
        """Sites that come back may have lost what the run is, or come for the first time."""
        known = self.journal.sites()
        first = known[next(iter(known))]
        for site, answer in self.greeted(back - set(known)).items():
            if any(answer.facts[what] != first[what] for what in _ALIKE):
                self.fed.suspend(site, "it has other features or classes than the others")
            else:
                known[site] = dict(answer.facts)
        self.journal.keep_sites(known)
        self._introduce(tuple(back & set(self.fed.present)))

    def _stop_if_refused(self) -> None:
        """Stop at once where too many sites refuse a run: waiting would not change their minds."""
        refusing = [site for site, why in self.fed.suspended.items() if why == REFUSED]
        if len(self.plan.sites) - len(refusing) < self.plan.quorum:
            raise AtollError(
                f"{', '.join(refusing)} refuse the run by their policies, which leaves fewer than "
                f"the quorum of {self.plan.quorum}; their operators see why in their logs."
            )

    def _introduce(self, sites: tuple[str, ...]) -> None:
        """Let sites know what the run is; also those that come back, which may have lost it."""
        answers = self._announce("begin", sites)
        known = self.journal.sites()
        for site, answer in answers.items():
            labelled: Any = answer.facts.get("labelled")
            if not is_count(labelled):
                self.fed.suspend(site, "it does not say how much it has to train on")
            elif self._keeps_its_word(site, known[site], answer.facts, ("labelled",)):
                client, nodes = self.plan.sites.index(site), int(known[site]["nodes"])
                self.fed.heaviest[client] = self.method.heaviest(nodes, labelled)
                known[site]["labelled"] = labelled
        self.journal.keep_sites(known)

    def _keeps_its_word(
        self, site: str, before: Mapping[str, Any], now: Mapping[str, Any], what: Sequence[str]
    ) -> bool:
        """Whether a site says of itself what it said when it first came; else it is suspended. How
        much it counts follows from that, and how its nodes are numbered."""
        for count in what:
            if before.get(count, now[count]) != now[count]:
                self.fed.suspend(
                    site, f"it says {now[count]} for {count}, where it said {before[count]} before"
                )
                return False
        return True

    def _announce(self, ask: str, sites: tuple[str, ...]) -> dict[str, Answer]:
        """Send sites what the run is, and each its number."""
        table = describe(self.plan.experiment)
        if table["task"].get("positive") == "" and self.positive >= 0:
            table["task"]["positive"] = self.positive
        if "areas" in table["task"]:
            table["task"]["areas"] = "always"  # a sort is nothing beside a message
        # Where a site finds its data is its own business.
        public = {k: v for k, v in table.items() if k not in ("data", "split", "partition")}
        requests = {}
        for site in sites:
            client = self.plan.sites.index(site)
            facts: dict[str, Any] = {"experiment": on_the_wire(public), "client": client}
            if self.anchors:
                facts["anchors"] = len(self.anchors[client])
            requests[site] = Request(ask, self.plan.run, self.fed.attempt, facts)
        return self.fed.ask_sites(ask, requests, largest=_LARGEST_WORD)


def _labelled(known: Mapping[str, Any]) -> dict[str, Any]:
    """What a site has to train on, as it said of this run."""
    return {"labelled": known["labelled"]} if "labelled" in known else {}


def _refuse_different(known: dict[str, Any]) -> None:
    first = next(iter(known))
    for site, facts in known.items():
        for what in _ALIKE:
            if facts[what] != known[first][what]:
                named = "names of features or classes" if what == "names" else what
                raise AtollError(
                    f"the sites '{first}' and '{site}' have different {named}; give all "
                    f"sites the same feature columns, and the same class_names and "
                    f"[categories] in their party.toml."
                )
