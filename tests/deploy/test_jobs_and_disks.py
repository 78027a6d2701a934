"""A run's jobs, of which the newest counts, and disks without room: nothing is lost."""

import errno
import os
import resource

import pytest

from atoll.deploy import journal as journals
from atoll.deploy.evidence.chain import Chain, read_chain
from atoll.deploy.fleet import EngineFailed
from atoll.deploy.journal import Journal
from atoll.errors import AtollError
from atoll.files import NoRoom
from small_federations import community_parties
from thread_fleet import again, deployed


def final_bytes(run_dir):
    return (run_dir / "parameters.safetensors").read_bytes()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    deployed(folder, community_parties((19, 25, 14)), "fed-avg").run()
    return final_bytes(folder / "run")


@pytest.fixture
def coordinator(tmp_path):
    return deployed(tmp_path, community_parties((19, 25, 14)), "fed-avg")


def after_round(coordinator, number, do):
    """Have something done once a round is on the disk."""
    save = coordinator.rounds.save

    def saved(clients):
        save(clients)
        if coordinator.rounds.done == number:
            do()

    coordinator.rounds.save = saved


def test_a_job_ends_when_a_newer_one_has_the_run(coordinator, undisturbed):
    journal = Journal(coordinator.run_dir)
    after_round(coordinator, 2, lambda: (journal.report(state="the newer one's"),
                                         journal.next_job()))  # fmt: skip
    with pytest.raises(AtollError, match="ended after round 2"):
        coordinator.run()
    assert journal.status()["state"] == "the newer one's"
    (coordinator.run_dir / "job.json").unlink()
    again(coordinator).run()
    assert final_bytes(coordinator.run_dir) == undisturbed


def test_a_job_that_an_engine_begins_too_late_touches_nothing(coordinator):
    journal = Journal(coordinator.run_dir)
    journal.next_job()
    with pytest.raises(AtollError, match="was ended"):
        coordinator.run()
    assert journal.status() == {}
    assert not (coordinator.run_dir / "evidence.jsonl").exists()


def test_an_engine_that_fails_is_no_end_of_the_run(coordinator, undisturbed):
    """Its supervisor then submits another job, as after one that was killed."""
    fleet, asked = coordinator.fleet, []

    def exchange(messages, seconds):
        asked.append(None)
        if len(asked) == 12:
            raise EngineFailed("no answer in time")
        return type(fleet).exchange(fleet, messages, seconds)

    fleet.exchange = exchange
    with pytest.raises(EngineFailed):
        coordinator.run()
    assert Journal(coordinator.run_dir).status()["state"] == "running"
    again(coordinator).run()
    assert final_bytes(coordinator.run_dir) == undisturbed


def test_a_full_disk_stops_a_run_at_once_and_loses_nothing(coordinator, undisturbed):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    full = (2048, before[1])  # from now on no file can grow beyond this
    after_round(coordinator, 2, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, full))
    try:
        with pytest.raises(AtollError, match=r"the disk of .* is full.*make room .*resume") as said:
            coordinator.run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    status = Journal(coordinator.run_dir).status()
    assert (status["state"], status["message"]) == ("stopped", str(said.value))
    assert f"the model is that of round {status['round']}" in status["message"]
    assert status["round"] == 2
    again(coordinator).run()
    assert final_bytes(coordinator.run_dir) == undisturbed


def test_a_last_word_has_room_on_a_full_disk(tmp_path, monkeypatch):
    journal, write_json = Journal(tmp_path), journals.write_json
    journal.keep_spare_room()

    def full(path, value, mode=None):
        if (tmp_path / "spare").exists():
            raise NoRoom(path, OSError(errno.ENOSPC, "No space left on device"))
        write_json(path, value, mode)

    monkeypatch.setattr(journals, "write_json", full)
    journal.report(state="stopped")
    assert journal.status()["state"] == "stopped"


def test_half_a_record_does_not_spoil_those_that_follow(tmp_path, monkeypatch):
    chain, sync = Chain(tmp_path / "evidence.jsonl"), os.fsync
    chain.append(what="first")

    def full(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        chain.append(what="lost")
    monkeypatch.setattr(os, "fsync", sync)
    chain.append(what="second")
    assert [r["what"] for r in read_chain(chain.path)] == ["first", "second"]
