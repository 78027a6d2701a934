"""Jobs of a run, one after the other, on an engine whose every answer the test decides."""

import errno

import pytest

from atoll.deploy.journal import FOLDER, Journal, way_on
from atoll.deploy.operator import Operator, OutOfTouch
from atoll.deploy.plan import Terms, new_plan
from atoll.deploy.supervisor import Supervisor
from atoll.errors import AtollError
from atoll.files import NoRoom, write_json
from thread_fleet import experiment


class Scripted(Operator):
    """Each job says one thing as soon as it is submitted, or nothing, and then is in a state."""

    seconds_between_calls = 0.0

    def __init__(self, journal, *jobs):
        self.journal, self.jobs = journal, list(jobs)
        self.submitted, self.stopped = [], []
        self.back, self.here = set(), {"a", "b", "c"}

    def submit(self, plan):
        self.word = plan.job
        says, self.now = self.jobs[len(self.submitted)]
        if isinstance(says, Exception):
            self.jobs.pop(len(self.submitted))
            raise says
        self.submitted.append(says)
        if says:
            attempt = len(self.submitted)
            missing = says.get("missing", {})
            facts = {"job": self.word, "message": "", "missing": missing}
            self.journal.report(attempt=attempt, **facts | says)
        return f"job-{len(self.submitted)}"

    def state(self, job):
        status = self.journal.status()
        if not self.journal.handover:
            return self.now
        if status["state"] != "handover":
            self.journal.report(**status | {"state": "handover"})
        return "ended"

    def stop(self, job):
        self.stopped.append(job)

    def connected(self):
        return set(self.here)

    def outside(self, job, sites):
        return set(sites) & self.back


@pytest.fixture
def supervised(tmp_path):
    def make(*jobs, patience=5.0):
        chosen = experiment(tmp_path, "fed-avg")
        plan = new_plan("nvflare", ("a", "b", "c"), chosen, Terms(patience=patience))
        operator = Scripted(Journal(tmp_path), *jobs)
        return Supervisor(operator, plan, tmp_path), operator

    return make


COMPLETE = ({"state": "complete", "round": 4}, "ended")


def test_a_job_that_never_begins_is_stopped_and_another_tried(supervised, monkeypatch):
    monkeypatch.setattr("atoll.deploy.supervisor._SECONDS_TO_BEGIN", 0.5)
    supervisor, operator = supervised((None, "waiting"), COMPLETE, patience=0.5)
    supervisor.run()
    assert operator.stopped == ["job-1"]
    assert len(operator.submitted) == 2


def test_a_site_that_is_back_outside_the_job_brings_about_a_new_one(supervised):
    without = {"state": "running", "round": 2, "missing": {"a": "no reply in time"}}
    supervisor, operator = supervised((without, "running"), COMPLETE)
    operator.back = {"a"}
    supervisor.run()
    assert operator.stopped == []
    assert len(operator.submitted) == 2


def test_a_missing_site_that_stays_away_brings_about_nothing(supervised):
    without = {"state": "running", "round": 2, "missing": {"a": "no reply in time"}}
    supervisor, operator = supervised((without, "running"), COMPLETE)
    looks = []

    def check():
        looks.append(None)
        if len(looks) == 5:
            said = operator.journal.status()
            operator.journal.report(**said | {"state": "complete", "round": 4, "missing": {}})

    supervisor.check = check
    supervisor.run()
    assert len(operator.submitted) == 1


def test_jobs_that_end_without_a_round_are_given_up_after_three(supervised):
    begun = {"state": "running", "round": 1}
    supervisor, operator = supervised(*[(begun, "ended")] * 9)
    with pytest.raises(AtollError, match=r"3 jobs in a row .* atoll submit --resume"):
        supervisor.run()
    assert len(operator.submitted) == 4  # the first one completed a round


def test_how_a_run_goes_on_depends_on_where_its_sites_are(tmp_path):
    assert way_on(tmp_path / "first") == "atoll submit --resume first"
    write_json(tmp_path / "first" / FOLDER, {"folder": "sites"})  # as atoll up does
    assert way_on(tmp_path / "first") == f"atoll resume {tmp_path / 'first'}"


def test_the_coordinators_own_sentence_is_passed_on(supervised):
    stopped = {"state": "stopped", "round": 1, "message": "1 of 3 sites take part"}
    supervisor, _ = supervised((stopped, "running"))
    with pytest.raises(AtollError, match="1 of 3 sites take part"):
        supervisor.run()


def test_an_engine_that_does_not_answer_at_once_is_asked_again(supervised, monkeypatch):
    monkeypatch.setattr("atoll.deploy.supervisor._BETWEEN_TRIES", 0.0)
    supervisor, operator = supervised((OutOfTouch("busy"), ""), COMPLETE)
    supervisor.run()
    assert len(operator.submitted) == 1


def test_what_an_older_job_says_is_not_taken_for_the_new_one_s(supervised):
    """A server that was restarted begins a job of the last one, beside the one it is given."""
    older = {"state": "stopped", "round": 1, "message": "another process is at work", "job": "old"}
    supervisor, operator = supervised((older, "running"))
    looks = []

    def check():
        looks.append(None)
        if len(looks) == 4:
            operator.journal.report(**older | {"state": "complete", "job": operator.word})

    supervisor.check = check
    supervisor.run()
    assert len(looks) >= 4


def test_every_try_has_a_word_of_its_own(supervised, monkeypatch):
    """An engine that did not answer may have taken the job all the same."""
    monkeypatch.setattr("atoll.deploy.supervisor._BETWEEN_TRIES", 0.0)
    supervisor, operator = supervised((OutOfTouch("busy"), ""), COMPLETE)
    words, submit = [], operator.submit
    operator.submit = lambda plan: (words.append(plan.job), submit(plan))[1]
    supervisor.run()
    assert len(set(words)) == 2
    assert words[-1] == operator.journal.job


@pytest.mark.parametrize(("last", "waits"), [(["a", "b", "c"], True), (["a", "b"], False)])
def test_a_continued_run_waits_for_the_sites_that_took_part_last(supervised, last, waits):
    supervisor, operator = supervised(COMPLETE, patience=60.0)
    operator.journal.report(state="running", round=2, present=last)
    operator.here = {"a", "b"}
    looks = []

    def check():
        looks.append(len(operator.submitted))
        if len(looks) == 3:
            operator.here = {"a", "b", "c"}

    supervisor.check = check
    supervisor.run()
    assert (looks[1] == 0) == waits


def test_a_continued_run_does_not_wait_forever_where_there_is_a_quorum(supervised, monkeypatch):
    monkeypatch.setattr("atoll.deploy.supervisor._GRACE", 0.0)
    supervisor, operator = supervised(COMPLETE, patience=60.0)
    operator.journal.report(state="running", round=2, present=["a", "b", "c"])
    operator.here = {"a", "b"}
    supervisor.run()
    assert len(operator.submitted) == 1


def test_a_full_disk_is_named_at_once(supervised, monkeypatch):
    """Also where its coordinator had no room to say so."""
    supervisor, operator = supervised((None, "ended"), COMPLETE)
    written = []

    def no_room_for_a_second_job(path, value, mode=None):
        written.append(path)
        if len(written) > 1:
            raise NoRoom(path, OSError(errno.ENOSPC, "No space left on device"))

    monkeypatch.setattr("atoll.deploy.journal.write_json", no_room_for_a_second_job)
    with pytest.raises(AtollError, match=r"the disk of .* is full.*round 0: make room .* submit"):
        supervisor.run()
    assert len(operator.submitted) == 1
