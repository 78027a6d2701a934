"""Supervises a run: one job after the other, until it is complete or has to stop."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from atoll.deploy.journal import Journal, disk_is_full, way_on
from atoll.deploy.operator import Operator, OutOfTouch
from atoll.deploy.plan import Plan
from atoll.errors import AtollError
from atoll.experiment.runner import Progress
from atoll.files import NoRoom

_BETWEEN_LOOKS = 0.5
_VAIN_JOBS = 3
_TRIES, _BETWEEN_TRIES = 5, 5.0
_SECONDS_TO_BEGIN = 600.0
# How long sites that took part are waited for where a quorum is there: engines' clients dial again
# within this time.
_GRACE = 120.0
log = logging.getLogger("atoll")


@dataclass
class Supervisor:
    """Starts the jobs of a run and readmits sites that the engine alone would not.

    ``check`` is called now and then and raises if something else has gone wrong.
    """

    operator: Operator
    plan: Plan
    run_dir: Path
    progress: Progress | None = None
    check: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self._journal = Journal(self.run_dir)

    def run(self) -> None:
        """Until the run is complete. Raises the coordinator's own sentence if it stops."""
        shown, vain = 0, 0
        self._wait_for_sites()
        while True:
            before = int(self._journal.status().get("round", 0))
            try:
                job = self._start()
            except NoRoom as problem:
                raise disk_is_full(self.run_dir, before) from problem
            outcome = self._watch(job, shown)
            status = self._journal.status()
            shown = int(status.get("round", 0))
            if outcome == "complete":
                return
            if outcome in ("stopped", "failed"):
                raise AtollError(status["message"] or "the run failed; see the server's log.")
            vain = 0 if shown > before else vain + 1
            if vain >= _VAIN_JOBS:
                raise AtollError(
                    f"{vain} jobs in a row ended without completing a round; see the server's log "
                    f"and continue with: {way_on(self.run_dir)}"
                )

    def _wait_for_sites(self) -> None:
        """Wait for the sites: for all of them at first; where a run is continued, for those that
        took part last, so that it goes on as if it had not been interrupted. A quorum must do
        after some time."""
        status, since = self._journal.status(), time.monotonic()
        awaited = set(status["present"] if status.get("present") else self.plan.sites)
        patience = self.plan.terms.patience
        grace = min(patience, _GRACE) if status else patience
        while True:
            self.check()
            here = self._connected() & set(self.plan.sites)
            enough = len(here) >= self.plan.quorum
            waited = time.monotonic() - since
            if enough and (here >= awaited or waited > grace):
                return
            if waited > patience:
                raise AtollError(
                    f"{len(here)} of {len(self.plan.sites)} sites are connected, fewer than the "
                    f"quorum of {self.plan.quorum}; start the sites and continue with: "
                    f"{way_on(self.run_dir)}"
                )
            time.sleep(_BETWEEN_LOOKS)

    def _connected(self) -> set[str]:
        try:
            return self.operator.connected()
        except OutOfTouch:
            return set()

    def _start(self) -> str:
        self._journal.no_handover()
        for _ in range(_TRIES - 1):
            try:
                return self._submit()
            except OutOfTouch as problem:
                self.check()
                log.warning("%s", problem)
                time.sleep(_BETWEEN_TRIES)
        return self._submit()

    def _submit(self) -> str:
        """A new job. An engine may still begin one that it was given before, even where it did not
        say so, or a server ago: each has a word of its own, and the last one's counts."""
        self._word = self._journal.next_job()
        return self.operator.submit(replace(self.plan, job=self._word))

    def _watch(self, job: str, shown: int) -> str:
        """How a job ends: complete, stopped, failed, handover, or lost."""
        next_call = time.monotonic() + self.operator.seconds_between_calls
        until = time.monotonic() + max(self.plan.terms.patience, _SECONDS_TO_BEGIN)
        while True:
            self.check()
            status = self._journal.status()
            # Before the new job has said anything, the file is still the last one's.
            spoke = status.get("job") == self._word
            if spoke and self.progress is not None and int(status["round"]) > shown:
                shown = int(status["round"])
                value = status.get("validation")
                self.progress(shown, float("nan") if value is None else float(value))
            if spoke and status["state"] in ("complete", "stopped", "failed"):
                return str(status["state"])
            if time.monotonic() > next_call:
                try:
                    ended = self.operator.state(job) == "ended"
                    if not ended and spoke and status["missing"]:
                        self._readmit(job, set(status["missing"]))
                    if not ended and not spoke and time.monotonic() > until:
                        log.warning("job %s has not begun in time; trying another.", job)
                        self.operator.stop(job)
                        return "lost"
                except OutOfTouch as problem:
                    log.warning("%s", problem)
                    ended = False
                if ended and self._journal.status() == status:
                    return "handover" if spoke and status["state"] == "handover" else "lost"
                next_call = time.monotonic() + self.operator.seconds_between_calls
            time.sleep(_BETWEEN_LOOKS)

    def _readmit(self, job: str, missing: set[str]) -> None:
        """Have the run go on in a new job if that brings sites back."""
        if self.operator.outside(job, missing):
            self._journal.ask_for_handover()
