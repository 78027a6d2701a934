"""The run loop of a deployment: as a simulation's, with sites that may fail at any moment."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from atoll.deploy.evidence.sealing import ServerRecord
from atoll.deploy.fleet import EngineFailed, Fleet
from atoll.deploy.introductions import Introductions
from atoll.deploy.journal import Journal, disk_is_full, way_on
from atoll.deploy.plan import Plan
from atoll.deploy.remote import BelowQuorum, Remote
from atoll.deploy.summing import RosterPeers
from atoll.deploy.voice import Voice
from atoll.errors import AtollError, NoReplies
from atoll.experiment.result import Result, load_result
from atoll.experiment.rounds import Rounds
from atoll.experiment.run_dir import is_complete
from atoll.federation.calls import Replies
from atoll.federation.codec import Answer, Request
from atoll.files import clear_leftovers, held, is_no_room
from atoll.privacy.averaging import protect

log = logging.getLogger("atoll")
_SECONDS_TO_COME_UP = 60.0
# What a coordinator reported last that ended in the middle of a round.
_AT_WORK = ("running", "waiting", "failed")


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
        peers = RosterPeers(self.voice.roster, self.fed)
        protect(self.fed, experiment.privacy, self.method.epochs, peers)
        self.introductions = Introductions(self.plan, self.fed, self.journal)
        self.validation = float("nan")
        self.kept = 0  # the round that is on the disk
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
        except EngineFailed:  # is no end of the run: it goes on in another job
            raise
        except Exception as problem:
            if is_no_room(problem):
                full = disk_is_full(self.run_dir, self.kept)
                self._report("stopped", str(full))
                raise full from problem
            if isinstance(problem, AtollError):
                self._report("stopped", str(problem))
            else:
                self._report("failed", type(problem).__name__)
            raise

    def _run(self) -> Result | None:
        self._check_stopped()
        before = self.journal.status()
        self.rounds.done = self.kept = int(before.get("round", 0))
        self.journal.keep_spare_room()
        record = self.fleet.record = ServerRecord(self.run_dir, self.plan.run, self.voice.key)
        self._report("starting")
        self._assemble()
        info, sizes = self.introductions.begin(self._hello())
        self.rounds.history.metric = self.introductions.metric
        self.rounds.state = self.method.start(info, self.plan.experiment.run.seed)
        if self.rounds.restore() is None:
            self.rounds.done = 0
        elif before.get("state") in _AT_WORK:
            self.rounds.count_interrupted()
        self.kept = self.rounds.done
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
        while found != everybody and time.monotonic() < until and not self._is_over():
            time.sleep(1.0)
            found = self.fleet.present(everybody)
        for site in sorted(set(self.plan.sites) - found):
            self.fed.miss(site, "it did not come at the start")
        if len(found) < self.plan.quorum:
            self._below_quorum()

    def _hello(self) -> dict[str, Answer]:
        """What a quorum reports of itself; an engine may count sites that are not up yet."""
        until = time.monotonic() + self.plan.terms.patience
        while True:
            answers = self.introductions.greeted(self.fed.present)
            if len(self.fed.present) >= self.plan.quorum:
                return answers
            if time.monotonic() > until or self._is_over() or self.fed.hopeless:
                self._below_quorum()
            self._report("waiting", self.fed.shortage())
            time.sleep(1.0)
            with suppress(BelowQuorum):
                self.fed.gather(max(until - time.monotonic(), 0.1), self._is_over)

    def _round(self) -> None:
        """One round; begun anew, from the same states, while too few sites see it through."""
        until = time.monotonic() + self.plan.terms.patience
        while True:
            was_missing = set(self.fed.missing)
            try:
                self.fed.gather(max(until - time.monotonic(), 0.1), self._is_over)
                back = was_missing - set(self.fed.missing)
                if back:
                    self.introductions.welcome(back)
                self._check_stopped()
                self._report("running")
                self.validation = self.rounds.complete()
                self.rounds.keep_if_best(self.validation, lambda wanted: {})
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
        self.kept = self.rounds.done
        self.fed.best = self.rounds.best.round  # not before it is on record here
        self._report("running")

    def _check_stopped(self) -> None:
        if self._is_over():
            raise Stopped(f"the job was ended after round {self.kept}.")

    def _is_over(self) -> bool:
        return self.stopped() or self._is_superseded()

    def _is_superseded(self) -> bool:
        """Whether a newer job has the run: an engine may begin one that nobody waits for."""
        return self.journal.job != self.plan.job

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
                f"what they say and continue with: {way_on(self.run_dir)}"
            )
        raise AtollError(
            f"{self.fed.shortage()}; waited in vain and stopped. The model is that of round "
            f"{self.kept}; start the sites and continue with: {way_on(self.run_dir)}"
        )

    def _report(self, state: str, message: str = "") -> None:
        if self._is_superseded():  # what it says would be taken for the newer one's
            return
        self.journal.report(
            job=self.plan.job,
            run=self.plan.run,
            state=state,
            message=message,
            round=self.kept,
            rounds=self.plan.experiment.run.rounds,
            validation=_finite(self.validation),
            attempt=self.fed.attempt,
            present=list(self.fed.present),
            missing=dict(self.fed.missing),
            suspended=dict(self.fed.suspended),
        )


def _finite(value: float) -> float | None:
    """JSON has no NaN."""
    return None if value != value else value
