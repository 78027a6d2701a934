"""The run loop of a deployment: as a simulation's, with sites that may fail at any moment."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from atoll.deploy.admission import on_the_wire
from atoll.deploy.anchors import matched_anchors
from atoll.deploy.evidence.sealing import ServerRecord
from atoll.deploy.fleet import REFUSED, Fleet
from atoll.deploy.hello import is_count, misstatement
from atoll.deploy.journal import Journal
from atoll.deploy.plan import Plan
from atoll.deploy.remote import BelowQuorum, Remote
from atoll.deploy.voice import Voice
from atoll.errors import AtollError, NoReplies
from atoll.experiment.config import describe
from atoll.experiment.result import Result, Size, load_result
from atoll.experiment.rounds import Rounds
from atoll.experiment.run_dir import is_complete
from atoll.federation.codec import Answer, Request
from atoll.federation.protocol import Replies
from atoll.files import clear_leftovers, held
from atoll.methods.base import Info
from atoll.privacy.averaging import protect

log = logging.getLogger("atoll")
_SECONDS_TO_COME_UP = 60.0
# What all sites must have alike.
_ALIKE = ("features", "classes", "names")
# What sites answer without tensors is a few numbers and names.
_LARGEST_WORD = 2**16


class Stopped(AtollError):
    """The engine or the operator ended the job; the run can be resumed."""


@dataclass
class Coordinator:
    """Runs a plan over a fleet, from its first round or from its last complete one.

    Everything it must remember lies in the run directory before the next round begins, so that it
    can be killed at any moment.
    """

    plan: Plan
    run_dir: Path
    fleet: Fleet
    voice: Voice
    stopped: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        experiment, terms = self.plan.experiment, self.plan.terms
        self.method = experiment.method
        self.journal = Journal(self.run_dir)
        self.fleet.voice = self.voice
        self.fed = Remote(
            self.fleet,
            self.plan.sites,
            experiment.run.seed,
            self.plan.run,
            deadline=terms.deadline,
            quorum=self.plan.quorum,
            attempt=self.journal.next_attempt(),
        )
        protect(self.fed, experiment.privacy, self.method.epochs)
        self.validation = float("nan")
        self.anchors: tuple[np.ndarray, ...] = ()
        # The class that most training nodes are at a site where it is the rarer one, if of two.
        self.positive = -1
        self.rounds = Rounds(experiment, self.fed, self.run_dir)

    def run(self) -> Result | None:
        """The result, or None if the run is handed over to a new job."""
        if is_complete(self.run_dir):
            return load_result(self.run_dir, self.plan.experiment)
        torch.set_num_threads(self.plan.experiment.run.threads or torch.get_num_threads())
        try:
            # A job that the engine is about to end may still be there.
            with held(self.run_dir, min(self.plan.terms.patience, _SECONDS_TO_COME_UP)):
                clear_leftovers(self.run_dir)
                return self._run()
        except AtollError as problem:
            self._report("stopped", str(problem))
            raise
        except Exception as problem:
            self._report("failed", type(problem).__name__)
            raise

    def _run(self) -> Result | None:
        self.rounds.done = int(self.journal.status().get("round", 0))
        record = self.fleet.record = ServerRecord(self.run_dir, self.plan.run, self.voice.key)
        self._report("starting")
        self._assemble()
        sizes = self._begin()
        if self.rounds.restore() is None:
            self.rounds.done = 0
        self.fed.best = self.rounds.best.round
        while not self.rounds.over:
            self._check_stopped()
            if self.journal.handover:
                self._report("handover")
                return None
            self._round()
        concluded = self._conclude()
        self._finish()
        self.rounds.save({})  # with what was concluded
        record.close()
        result = self.rounds.store({}, sizes, concluded)
        self._report("complete")
        return result

    def _assemble(self) -> None:
        """Wait for the sites of this job to be up; then a quorum must do."""
        everybody = self.fleet.within_reach(self.plan.sites)
        until = time.monotonic() + min(self.plan.terms.patience, _SECONDS_TO_COME_UP)
        found = self.fleet.present(everybody)
        while found != everybody and time.monotonic() < until and not self.stopped():
            time.sleep(1.0)
            found = self.fleet.present(everybody)
        for site in sorted(set(self.plan.sites) - found):
            self.fed.miss(site, "it did not come at the start")
        if len(found) < self.plan.quorum:
            self._below_quorum()

    def _begin(self) -> list[Size]:
        """Learn the sites' sizes, match anchors, and let every site know what the run is."""
        known = self.journal.sites()
        for site, answer in self._hello().items():
            known[site] = dict(answer.facts)
        self._refuse_different(known)
        self.positive = _voted(known)
        self.journal.keep_sites(known)
        method = self.method
        if method.needs_anchors:  # nobody matches anything for a run that it refuses
            self._announce("propose", self.fed.present)
            self._stop_if_refused()
        nodes = {site: int(facts["nodes"]) for site, facts in known.items()}
        match = partial(matched_anchors, self.fed, nodes)
        anchors = self.anchors = self.journal.anchors(match) if method.needs_anchors else ()
        self._introduce(self.fed.present)
        self._stop_if_refused()
        first = known[next(iter(known))]
        info = Info(
            len(self.plan.sites),
            int(first["features"]),
            int(first["classes"]),
            getattr(torch, self.plan.experiment.run.dtype),
            anchors,
            self.journal.network(method.registered_name) if method.needs_network else None,
        )
        self.rounds.state = method.start(info, self.plan.experiment.run.seed)
        blank = {"nodes": 0, "train": 0}
        sizes = [known.get(site, blank) for site in self.plan.sites]
        return [Size(int(facts["nodes"]), int(facts["train"])) for facts in sizes]

    def _hello(self) -> dict[str, Answer]:
        """What a quorum reports of itself; an engine may count sites that are not up yet."""
        until = time.monotonic() + self.plan.terms.patience
        while True:
            answers = self._greeted(self.fed.present)
            if len(self.fed.present) >= self.plan.quorum:
                return answers
            if time.monotonic() > until or self.stopped() or self.fed.hopeless:
                self._below_quorum()
            self._report("waiting", self.fed.shortage())
            time.sleep(1.0)
            with suppress(BelowQuorum):
                self.fed.gather(max(until - time.monotonic(), 0.1), self.stopped)

    def _greeted(self, sites: Collection[str]) -> dict[str, Answer]:
        """What sites report of themselves; one that can't be believed is asked no more."""
        requests = {site: Request("hello", self.plan.run, self.fed.attempt) for site in sites}
        answers = self.fed.ask_sites("hello", requests, largest=_LARGEST_WORD)
        for site, answer in list(answers.items()):
            if wrong := misstatement(answer.facts):
                self.fed.suspend(site, wrong)
                del answers[site]
        return answers

    def _welcome(self, back: set[str]) -> None:
        """Sites that come back may have lost what the run is, or come for the first time."""
        known = self.journal.sites()
        first = known[next(iter(known))]
        for site, answer in self._greeted(back - set(known)).items():
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
            else:
                client, nodes = self.plan.sites.index(site), int(known[site]["nodes"])
                self.fed.heaviest[client] = self.method.heaviest(nodes, labelled)

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

    def _refuse_different(self, known: dict[str, Any]) -> None:
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

    def _round(self) -> None:
        """One round; begun anew, from the same states, while too few sites see it through."""
        until = time.monotonic() + self.plan.terms.patience
        while True:
            was_missing = set(self.fed.missing)
            try:
                self.fed.gather(max(until - time.monotonic(), 0.1), self.stopped)
                back = was_missing - set(self.fed.missing)
                if back:
                    self._welcome(back)
                self._check_stopped()
                self._report("running")
                self.validation = self.rounds.complete()
                self.rounds.keep_if_best(self.validation, dict)
                self._save()
                return
            except BelowQuorum:
                self.fed.attempt = self.journal.next_attempt()
                self._report("waiting", self.fed.shortage())
                if self.journal.handover:
                    return
                if time.monotonic() > until or self.fed.hopeless:
                    self._below_quorum()

    def _save(self) -> None:
        """Everything that a successor needs; what the sites hold stays with them."""
        ledger = self.fed.ledger
        # A table that is written every round is not made anew from its first entry.
        ledger.before, ledger.entries = ledger.table(), []
        self.rounds.save({})
        self.fed.best = self.rounds.best.round  # not before it is on record here
        self._report("running")

    def _check_stopped(self) -> None:
        if self.stopped():
            raise Stopped(f"the job was ended after round {self.rounds.done}.")

    def _conclude(self) -> Replies | None:
        try:
            return self.rounds.conclude()
        except (BelowQuorum, NoReplies) as problem:
            log.warning("the run ends without its concluding figures: %s", problem)
            return None

    def _finish(self) -> None:
        """Every site keeps its own models; one that fails has its state all the same."""
        facts = {"best": self.fed.best}
        requests = {
            site: Request("finish", self.plan.run, self.fed.attempt, facts)
            for site in self.fed.present
        }
        self.fed.ask_sites("finish", requests)

    def _below_quorum(self) -> None:
        if self.fed.hopeless:
            raise AtollError(
                f"{self.fed.shortage()}; waiting can't help, so it stopped. Have the sites mend "
                f"what they say and continue with: atoll resume {self.run_dir}"
            )
        raise AtollError(
            f"{self.fed.shortage()}; waited in vain and stopped. The model is that of round "
            f"{self.rounds.done}; start the sites and continue with: atoll resume "
            f"{self.run_dir}"
        )

    def _report(self, state: str, message: str = "") -> None:
        self.journal.report(
            run=self.plan.run,
            state=state,
            message=message,
            round=self.rounds.done,
            rounds=self.plan.experiment.run.rounds,
            validation=_finite(self.validation),
            attempt=self.fed.attempt,
            present=list(self.fed.present),
            missing=dict(self.fed.missing),
            suspended=dict(self.fed.suspended),
        )


def _voted(known: dict[str, Any]) -> int:
    """The positive class by what sites say of themselves, each counting its training nodes."""
    votes: dict[int, int] = {}
    for facts in known.values():
        rarer = int(facts.get("rarer", -1))
        votes[rarer] = votes.get(rarer, 0) + int(facts["train"])
    return max(votes, key=lambda rarer: (votes[rarer], rarer), default=-1)


def _finite(value: float) -> float | None:
    """JSON has no NaN."""
    return None if value != value else value
