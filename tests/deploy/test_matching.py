"""Anchors matched privately: as exactly as by looking at all ids, and nothing else comes out."""

import hashlib
import json
import time

import numpy as np
import pytest
import torch

from atoll.archive import read_tree
from atoll.deploy.anchors import matched_anchors
from atoll.deploy.coordinator import Coordinator
from atoll.deploy.envelope import Label, sealed
from atoll.deploy.identity import identity_of
from atoll.deploy.letters import Letters
from atoll.deploy.matching import TURNS, Limits, Matcher, OutOfTurn
from atoll.deploy.ristretto import NoPoint, new_scalar, point_of, raised
from atoll.federation.codec import Answer, Request, decode_answer, decode_request
from atoll.graph import make_graph
from atoll.partition.anchors import matched
from small_federations import community_parties
from thread_fleet import again, deployed, keys_of

pytest.importorskip("rbcl", reason="rbcl is not installed; it comes with the psi extra")


def party(ids, name="party"):
    n = len(ids)
    x = np.eye(max(n, 2), 4, dtype=np.float32)[:n]
    return make_graph(
        x, np.zeros((2, 0), dtype=np.int64), np.zeros(n, dtype=np.int64),
        classes=2, ids=np.array(ids), name=name,
    )  # fmt: skip


def coordinator(tmp_path, ids, fewest=1) -> Coordinator:
    graphs = [party(own, f"party {k}") for k, own in enumerate(ids)]
    made = deployed(tmp_path, graphs, "fed-avg", terms={"deadline": 5.0})
    for site in made.fleet.sites.values():  # as if a run that has a use for anchors was admitted
        site._durable(made.plan.run).keep_facts("proposed", {"needs_anchors": True})
    for site in made.fleet.sites.values():
        site.limits = Limits(fewest)
    return made


def numbers(made):
    return matched_anchors(made.fed, dict.fromkeys(made.plan.sites, 10_000))


def rows_at(made, k):
    site = made.fleet.sites[made.plan.sites[k]]
    return json.loads((site.state / made.plan.run / "anchors.json").read_text())["rows"]


THREE = [
    ["ann", "bob", "cid", "dan", "eve"],
    ["zoe", "eve", "bob", "yan"],
    ["dan", "zoe", "tom", "bob", "uwe"],
]


@pytest.mark.parametrize(
    "ids",
    [THREE, [[3, 1, 2], [9, 8, 7], [2, 9, 5]], [["a", "b"], ["c"], ["d"]], [["a"], ["a"], ["a"]]],
    ids=["text", "numbers", "disjoint", "all the same"],
)
def test_the_outcome_is_that_of_looking_at_all_ids(ids, tmp_path):
    made = coordinator(tmp_path, ids)
    found = numbers(made)
    looked, expected = matched([party(own) for own in ids])
    for k in range(3):
        assert rows_at(made, k) == looked[k].anchors.tolist()
        assert found[k].tolist() == expected[k].tolist()


def test_texts_become_points_as_the_standard_says():
    """RFC 9497, A.1.1: two blinded elements of OPRF(ristretto255, SHA-512)."""
    domain = b"HashToGroup-OPRFV1-\x00-ristretto255-SHA512"
    blind = bytes.fromhex("64d37aed22a27f5191de1c1d69fadb899d8862b58eb4220029e036ec4c1f6706")
    for text, expected in {
        b"\x00": "609a0ae68c15a3cf6903766461307e5c8bb2f95e7e6550e1ffa2dc99e412803c",
        b"\x5a" * 17: "da27ef466870f5f15296299850aa088629945a17d1f5b7f5ff043f76b3c06418",
    }.items():
        assert raised(point_of(text, domain), blind).hex() == expected


@pytest.mark.parametrize("bytes_", [b"\0" * 32, b"\xff" * 32, b"\x01" + b"\0" * 31])
def test_what_is_no_point_is_refused(bytes_):
    with pytest.raises(NoPoint):
        raised(bytes_, new_scalar())


def test_a_dictionary_of_all_ids_recovers_nothing_from_the_transcript(tmp_path):
    """Neither as text, nor under a hash, nor as the points that everybody could compute."""
    names = [f"person-{n:05d}" for n in range(60)]
    made = coordinator(tmp_path, [names[:30], names[20:50], names[45:]])
    numbers(made)
    seen = b"".join(made.fleet.transcript)
    assert len(seen) > 6 * 30 * 32
    for name in names:
        assert name.encode() not in seen
        assert point_of(name.encode()) not in seen
        for algorithm in ("md5", "sha1", "sha256", "sha512", "blake2b"):
            assert hashlib.new(algorithm, name.encode()).digest() not in seen


def as_letter(content):
    return torch.from_numpy(np.frombuffer(content, dtype=np.uint8).copy())


def asked(made, site, turn, tree, peers=()):
    """A turn that the coordinator itself asks a site for, with whatever letters it likes."""
    facts = {"turn": turn, "peers": list(peers)}
    request = Request("match", made.plan.run, made.fed.attempt, facts, tree)
    reply = made.fleet.doors[site].handle(made.voice.asks(site, request))
    return decode_answer(made.voice.hears(site, request, reply))


@pytest.mark.parametrize("signed", ["by nobody", "by the coordinator", "for another", "before"])
def test_an_active_server_with_a_dictionary_gets_nothing(signed, tmp_path, caplog):
    """It sends a site 5,000 guesses under its own exponent in the place of a peer's list."""
    ids = [f"person-{n:05d}" for n in range(40)]
    made = coordinator(tmp_path, [ids, ids[:20], ids[10:30]])
    victim, peer, third = made.plan.sites
    peer_identity = made.fleet.sites[peer].identity
    first = asked(made, victim, "lists", {}, [peer, third])
    assert set(first.tree) == {f"to/{peer}", f"to/{third}"}
    own = new_scalar()
    guesses = b"".join(raised(point_of(f"person-{n:05d}".encode()), own) for n in range(5_000))
    victims = made.fleet.sites[victim].identity
    if signed == "by the coordinator":
        # As the peer would have written it, but for the key that it is signed with.
        label = Label(made.plan.run, peer, made.fed.attempt, f"lists to {victim}")
        content = sealed(made.voice.key, "letter", label, b"\0\0\0\1" + guesses)
        letter = encrypted(content, victims)
    elif signed == "for another":  # what the peer wrote to a third site
        letter = bytes(asked(made, peer, "lists", {}, [third]).tree[f"to/{third}"].numpy())
    elif signed == "before":  # what the peer wrote to the victim in an earlier attempt
        earlier = Letters(peer_identity, made.plan.run, made.fed.attempt - 1)
        letter = earlier.write("lists", victim, b"\0\0\0\1" + guesses)
    else:
        letter = guesses
    caplog.clear()
    answer = asked(made, victim, "raise", {f"from/{peer}": as_letter(letter)})
    assert answer.error == ""
    assert not answer.tree
    assert f"a letter from '{peer}' was refused" in caplog.text
    # Nor does it get further: nothing is compared, no row becomes an anchor.
    assert not asked(made, victim, "compare", {f"from/{peer}": as_letter(letter)}).tree
    settled = asked(made, victim, "anchors", {f"from/{peer}": as_letter(letter)})
    assert list(settled.tree) == ["anchors"]
    assert rows_at(made, 0) == []


def encrypted(content, receiver):
    from atoll.deploy.letters import _INFO, _suite

    return bytes(_suite().encrypt(content, receiver.opening.public_key(), _INFO))


def test_with_the_peer_s_own_signature_such_a_list_would_be_answered(tmp_path):
    """So it is the signature that keeps the server out, and a limit that bounds a hostile peer."""
    ids = [f"person-{n:05d}" for n in range(40)]
    made = coordinator(tmp_path, [ids, ids[:20], ids[10:30]])
    victim, peer, _ = made.plan.sites
    asked(made, victim, "lists", {}, [peer])
    own = new_scalar()
    guesses = b"".join(raised(point_of(name.encode()), own) for name in ids[:9])
    letters = Letters(made.fleet.sites[peer].identity, made.plan.run, made.fed.attempt)
    letter = as_letter(letters.write("lists", victim, b"\0\0\0\1" + guesses))
    site = made.fleet.sites[victim]
    secret = (site.state / made.plan.run / "secret.safetensors").read_bytes()
    site.limits = Limits(largest_list=8)
    assert not asked(made, victim, "raise", {f"from/{peer}": letter}).tree
    site.limits = Limits(largest_list=9)
    (site.state / made.plan.run / "secret.safetensors").write_bytes(secret)
    assert asked(made, victim, "raise", {f"from/{peer}": letter}).tree


def test_a_pair_that_shares_too_few_reveals_none(tmp_path):
    """Two of three entities are asked for; two sites share one, and neither learns which."""
    ids = [["ann", "bob", "cid"], ["bob", "cid", "dan"], ["dan", "eve", "uwe"]]
    made = coordinator(tmp_path, ids, fewest=2)
    found = numbers(made)
    assert [rows_at(made, k) for k in range(3)] == [[1, 2], [0, 1], []]
    assert [n.tolist() for n in found] == [[0, 1], [0, 1], []]
    told = [decode_answer(made_content(made, m)) for m in made.fleet.transcript if is_last(made, m)]
    assert sorted(sorted(answer.tree) for answer in told) == [
        ["anchors"],
        ["anchors", f"pair/{made.plan.sites[0]}"],
        ["anchors", f"pair/{made.plan.sites[1]}"],
    ]


def made_content(made, message):
    """The content of an answer, whoever gave it."""
    from atoll.deploy.envelope import Forged, opened

    for keys in made.voice.roster.sites.values():
        try:
            return opened(bytes.fromhex(keys.signs), "answer", message)[1]
        except Forged:
            continue
    return None


def is_last(made, message):
    content = made_content(made, message)
    return content is not None and "anchors" in decode_answer(content).tree


def test_the_more_careful_of_two_decides_what_is_too_few(tmp_path):
    made = coordinator(tmp_path, [["a", "b", "c"], ["b", "c", "d"], ["x", "y", "z"]])
    made.fleet.sites[made.plan.sites[1]].limits = Limits(fewest_shared=3)
    assert [n.tolist() for n in numbers(made)] == [[], [], []]


@pytest.mark.parametrize("turn", TURNS)
def test_a_site_that_dies_is_left_out_and_the_others_are_matched(turn, tmp_path):
    made = coordinator(tmp_path, THREE)
    dead = made.plan.sites[1]

    def fault(site, content):
        request = decode_request(content)
        if site == dead and request.facts.get("turn") == turn:
            made.fleet.down.add(dead)

    made.fleet.fault = fault
    found = numbers(made)
    assert found[1].tolist() == []
    # ann, bob, cid, dan, eve and dan, zoe, tom, bob, uwe share bob and dan.
    first, third = (dict(zip(rows_at(made, k), found[k].tolist(), strict=True)) for k in (0, 2))
    assert (first[1], first[3]) == (third[3], third[0])


def test_a_run_begins_without_a_site_and_takes_it_in_without_anchors(tmp_path):
    made = deployed(tmp_path, community_parties((19, 25, 14), shared=8), "fed-gala", rounds=4)
    late = made.plan.sites[2]
    made.fleet.down = {late}

    def fault(site, content):
        if made.rounds.done == 1:
            made.fleet.down = set()

    made.fleet.fault = fault
    result = made.run()
    took_part = dict(result.history.group_by("round").len().iter_rows())
    assert took_part[1] == 2
    assert took_part[4] == 3
    assert [len(numbers) > 0 for numbers in made.introductions.anchors] == [True, True, False]


def test_a_matching_that_was_interrupted_is_begun_anew(tmp_path):
    made = deployed(tmp_path, community_parties((19, 25, 14), shared=8), "fed-gala", rounds=1)
    whole = deployed(
        tmp_path / "whole", community_parties((19, 25, 14), shared=8), "fed-gala", rounds=1
    )
    whole.run()

    class Killed(BaseException):
        pass

    exchange = made.fleet.exchange

    def fatal(messages, seconds):
        replies = exchange(messages, seconds)
        if b'"compare\\"' in b"".join(messages.values()):
            raise Killed
        return replies

    made.fleet.exchange = fatal
    with pytest.raises(Killed):
        made.run()
    continued = again(made)
    continued.run()
    name = "parameters.safetensors"
    assert (continued.run_dir / name).read_bytes() == (whole.run_dir / name).read_bytes()


def test_two_sites_that_do_not_agree_do_not_count(tmp_path, caplog):
    made = coordinator(tmp_path, THREE)
    liar, other = made.plan.sites[:2]

    def fault(site, content):
        request = decode_request(content)
        if site == liar and request.facts.get("turn") == "anchors":
            claims = {"anchors": torch.tensor([5]), f"pair/{other}": torch.arange(5)}
            return Answer(request.id, claims).encode()
        return None

    made.fleet.fault = fault
    found = numbers(made)
    assert "do not agree" in caplog.text
    assert not set(found[0].tolist()) & set(found[1].tolist())


def test_secrets_are_gone_when_the_matching_is_over(tmp_path):
    made = coordinator(tmp_path, THREE)
    numbers(made)
    assert not list(tmp_path.rglob("secret*"))


def pair(tmp_path, sides, session=("run", 1)):
    kits = keys_of(tmp_path / "kits", ["a", "b"])
    return {
        name: Matcher(
            own,
            tmp_path / name,
            identity_of(kits / f"site-{name}", tmp_path / name),
            session,
            Limits(),
        )
        for name, own in zip("ab", sides, strict=True)
    }


def test_secrets_are_for_the_owner_to_read_and_no_two_are_alike(tmp_path):
    kept = []
    for name, matcher in pair(tmp_path, [np.array(["ann", "bob"])] * 2).items():
        matcher.turn("lists", {}, {"a": "b", "b": "a"}[name])
        (secret,) = (tmp_path / name).glob("secret*")
        assert secret.stat().st_mode & 0o077 == 0
        kept.append(read_tree(secret)[0]["key/" + {"a": "b", "b": "a"}[name]])
    assert len(kept[0]) == len(kept[1]) == 32
    assert not torch.equal(*kept)


def test_turns_come_in_their_order_and_once(tmp_path):
    matcher = pair(tmp_path, [np.array(["ann"]), np.array(["bob"])])["a"]
    with pytest.raises(OutOfTurn):
        matcher.turn("compare", {})
    matcher.turn("lists", {}, ["b"])
    matcher.turn("raise", {})
    with pytest.raises(OutOfTurn):
        matcher.turn("raise", {})
    matcher.attempt = 2
    with pytest.raises(OutOfTurn):
        matcher.turn("compare", {})


def test_twenty_thousand_ids_a_side_are_exact_and_quick(tmp_path):
    rng = np.random.default_rng(0)
    ids = rng.permutation(33_000)
    sides = [ids[:20_000], ids[13_000:]]
    started = time.monotonic()
    matchers = pair(tmp_path, sides)
    inbox = {"a": {}, "b": {}}
    for turn in TURNS:
        sent = {n: m.turn(turn, inbox[n], "ab".replace(n, "")) for n, m in matchers.items()}
        if turn != "anchors":
            inbox = {n: {f"from/{p}": sent[p][f"to/{n}"]} for n, p in (("a", "b"), ("b", "a"))}
    seconds = time.monotonic() - started
    for name, own in zip("ab", sides, strict=True):
        rows = json.loads((tmp_path / name / "anchors.json").read_text())["rows"]
        assert set(own[rows]) == set(sides[0]) & set(sides[1])
        assert len(rows) == 7_000
    assert seconds < 120
    print(f"20,000 ids per side: {seconds:.1f} s")
