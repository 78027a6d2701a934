"""What others than the coordinator say to a site: refused before it is read, and nothing changes.

A site's door is what every engine hands its messages to, whoever sent them: another site through
NVIDIA FLARE's relay, a process of another user at the client's local listener, a Flower run that a
stranger has started. Each attack here is let through by a site without its door.
"""

import logging
import os

import pytest
import torch

import envelopes
from atoll.deploy.attempts import LARGEST_LEAP, Attempts, Repeated, Stale
from atoll.deploy.envelope import Label, opened, sealed
from atoll.deploy.keyring import enrol, renew_coordinator, revoke, roster_in
from atoll.deploy.site import Site
from atoll.deploy.voice import Voice, parted, sized, voice_of
from atoll.federation.codec import Request, decode_answer
from small_federations import community_parties
from thread_fleet import again, deployed


def files(folder):
    return {p: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def trained(tmp_path):
    """A federation after two rounds, and the site that is attacked."""
    coordinator = deployed(tmp_path, community_parties((19, 25, 14)), "fed-avg", rounds=2)
    coordinator.run()
    return coordinator, coordinator.plan.sites[0]


def hostile_requests(run):
    """What was found to do harm, in the words of an honest coordinator."""
    begin = {"experiment": {"run": {"threads": 10**9}}, "client": 0}
    return {
        "match": Request("match", run, 2, {"turn": "lists", "peers": ["party 1"]}),
        "begin": Request("begin", run, 2, begin),
        "another attempt": Request("step", run, 10**9, {"step": "train", "round": 1, "nth": 0}),
        "hello": Request("hello", run, 2),
        "ping": Request("ping"),
    }


@pytest.mark.parametrize("what", ["match", "begin", "another attempt", "hello", "ping"])
@pytest.mark.parametrize("speaker", ["nobody", "another site", "another federation"])
def test_only_the_coordinator_is_answered(what, speaker, trained, tmp_path, caplog, monkeypatch):
    coordinator, victim = trained
    request = hostile_requests(coordinator.plan.run)[what]
    label = Label(request.run, victim, request.attempt, request.id)
    other = coordinator.fleet.sites[coordinator.plan.sites[1]].identity
    if speaker == "another federation":
        enrol(tmp_path / "others", [victim])
        message = voice_of(tmp_path / "others" / "server").asks(victim, request)
    elif speaker == "another site":
        message = sealed(other.signing, "request", label, request.encode(), sized(b""))
    else:
        message = request.encode()
    before = files(tmp_path / "state")
    caplog.clear()
    monkeypatch.setattr("atoll.deploy.site.decode_request", lambda message: pytest.fail("parsed"))
    assert coordinator.fleet.doors[victim].handle(message) == b""
    assert files(tmp_path / "state") == before
    assert [r.getMessage().startswith("a message was refused: ") for r in caplog.records] == [True]


def test_mutated_messages_and_letters_are_all_refused(tmp_path, caplog):
    caplog.set_level(logging.ERROR)
    tried, wrong = envelopes.attack(tmp_path, 2_000, 0)
    assert tried == 2_000
    assert wrong == []


def test_without_its_door_a_site_answers_anybody(trained):
    """The tests above are worth something: the site itself asks nobody who they are."""
    coordinator, victim = trained
    site = coordinator.fleet.sites[victim]
    answer = decode_answer(site.handle(hostile_requests(coordinator.plan.run)["hello"].encode()))
    assert answer.facts["nodes"] == 19


def test_what_was_said_to_one_site_is_not_heard_by_another(trained):
    coordinator, victim = trained
    request = Request("hello", coordinator.plan.run, coordinator.fed.attempt)
    to_another = coordinator.voice.asks(coordinator.plan.sites[1], request)
    assert coordinator.fleet.doors[victim].handle(to_another) == b""


def told(coordinator, site, request):
    """A site's answer to a request that the coordinator has signed."""
    reply = coordinator.fleet.doors[site].handle(coordinator.voice.asks(site, request))
    return decode_answer(coordinator.voice.hears(site, request, reply))


def test_an_attempt_far_ahead_is_refused_and_erases_nothing(trained, tmp_path):
    coordinator, victim = trained
    before = files(tmp_path / "state")
    for attempt in (10**9, 2**63, LARGEST_LEAP + coordinator.fed.attempt + 1):
        request = Request("step", coordinator.plan.run, attempt, {"step": "train", "round": 1})
        assert told(coordinator, victim, request).error == "Leap"
    assert files(tmp_path / "state") == before
    next_one = Request("hello", coordinator.plan.run, coordinator.fed.attempt + 1)
    assert told(coordinator, victim, next_one).error == ""


def test_a_new_attempt_does_not_go_back_further_than_a_coordinator_can(tmp_path):
    coordinator = deployed(tmp_path, community_parties((19, 25, 14)), "fed-avg", rounds=7)
    coordinator.run()
    victim = coordinator.plan.sites[0]
    kept = set((tmp_path / "state" / victim / coordinator.plan.run).glob("round-*"))
    facts = {"step": "train", "round": 1, "nth": 0, "kinds": []}
    request = Request("step", coordinator.plan.run, coordinator.fed.attempt + 1, facts)
    assert told(coordinator, victim, request).error == "TooFarBack"
    assert set((tmp_path / "state" / victim / coordinator.plan.run).glob("round-*")) == kept


def test_a_request_that_is_sent_again_changes_nothing(tmp_path):
    """At once it gets the same answer; later, or after a restart, none but that it was repeated."""
    coordinator = deployed(tmp_path, community_parties((19, 25, 14)), "fed-avg", rounds=2)
    heard = []
    exchange = coordinator.fleet.exchange

    def overhear(messages, seconds):
        replies = exchange(messages, seconds)
        for site, message in messages.items():
            assert coordinator.fleet.doors[site].handle(message) == replies[site]
        heard.extend(messages.items())
        return replies

    coordinator.fleet.exchange = overhear
    coordinator.run()
    before = files(tmp_path / "state")
    runs = [(site, message) for site, message in heard if labelled(coordinator, message).run]
    assert len(runs) > 12
    last = dict(runs)
    for site, message in runs:
        if message != last[site]:
            assert answered(coordinator, site, message).error == "Repeated"
    restarted = again(coordinator)
    for site, message in runs:
        assert answered(restarted, site, message).error == "Repeated"
    assert files(tmp_path / "state") == before


def labelled(coordinator, message):
    key = bytes.fromhex(coordinator.voice.roster.coordinator)
    return opened(key, "request", parted(message)[1])[0]


def answered(coordinator, site, message):
    """A site's answer to a message off the wire."""
    key = bytes.fromhex(coordinator.voice.roster.sites[site].signs)
    return decode_answer(opened(key, "answer", coordinator.fleet.doors[site].handle(message))[1])


def test_attempts_only_go_up_and_are_remembered(tmp_path):
    first = Attempts(tmp_path)
    first.take(1, "a")
    first.take(2, "a")
    for attempts in (first, Attempts(tmp_path)):
        with pytest.raises(Stale):
            attempts.take(1, "b")
        with pytest.raises(Repeated):
            attempts.take(2, "a")
    Attempts(tmp_path).take(2, "b")


def test_an_answer_that_the_site_has_not_signed_does_not_count(tmp_path):
    coordinator = deployed(tmp_path, community_parties((19, 25, 14)), "fed-avg", rounds=2)
    forged, forger = coordinator.plan.sites[:2]
    identity = coordinator.fleet.sites[forger].identity
    exchange = coordinator.fleet.exchange

    def forge(messages, seconds):
        replies = dict(exchange(messages, seconds))
        label = labelled(coordinator, messages[forged]) if forged in replies else None
        if label is not None and label.run:  # pings are its own
            key = bytes.fromhex(coordinator.voice.roster.sites[forged].signs)
            _, content = opened(key, "answer", replies[forged])
            replies[forged] = sealed(identity.signing, "answer", label, content)
        return replies

    coordinator.fleet.exchange = forge
    result = coordinator.run()
    assert set(result.history["client"]) == {1, 2}
    assert coordinator.fed.missing[forged].startswith("a reply that it has not signed")


def test_a_revoked_site_is_neither_asked_nor_heard(tmp_path):
    coordinator = deployed(tmp_path, community_parties((19, 25, 14)), "fed-avg", rounds=2)
    gone = coordinator.plan.sites[2]
    revoke(tmp_path / "kits", gone)
    coordinator.voice = coordinator.fleet.voice = voice_of(tmp_path / "kits" / "server")
    asked = set()
    coordinator.fleet.fault = lambda site, content: asked.add(site)
    result = coordinator.run()
    assert asked == set(coordinator.plan.sites[:2])
    assert set(result.history["client"]) == {0, 1}
    # The others have learnt of it, and a site that was revoked answers nobody.
    others = coordinator.fleet.sites[coordinator.plan.sites[0]].identity
    assert gone not in others.roster.sites
    door = coordinator.fleet.doors[gone]
    ping = Request("ping")
    label = Label("", gone, 0, ping.id)
    first = sized(coordinator.voice.signed_roster)
    assert door.handle(sealed(coordinator.voice.key, "request", label, ping.encode(), first)) == b""


def test_a_renewed_coordinator_is_heard_and_the_old_one_is_not(trained, tmp_path):
    coordinator, victim = trained
    old, kit = coordinator.voice, tmp_path / "kits" / "server"
    renew_coordinator(tmp_path / "kits")
    new, door = voice_of(kit), coordinator.fleet.doors[victim]
    request = Request("ping")
    assert door.handle(new.asks(victim, request))
    assert door.handle(old.asks(victim, request)) == b""
    # Nor with the old roster once more, nor with one of its own making.
    forged = Voice(old.key, old.roster, old.roster.signed(old.key))
    assert door.handle(forged.asks(victim, request)) == b""
    # A restart does not bring the old one back.
    assert again(coordinator).fleet.doors[victim].handle(old.asks(victim, request)) == b""
    assert roster_in(kit)[0].revoked == {old.roster.coordinator: "coordinator"}


def test_a_site_uses_no_more_threads_than_there_are_processors(trained, tmp_path):
    coordinator, victim = trained
    site = coordinator.fleet.sites[victim]
    facts = site._durable(coordinator.plan.run).facts("begin")
    facts["experiment"]["run"]["threads"] = 10**6
    before = torch.get_num_threads()
    try:
        answer = Site(site.data, tmp_path / "other", policy=site.policy).handle(
            Request("begin", "r", 1, facts).encode()
        )
        assert decode_answer(answer).error == ""
        assert torch.get_num_threads() <= os.cpu_count()
    finally:
        torch.set_num_threads(before)
