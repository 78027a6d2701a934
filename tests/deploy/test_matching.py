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
from atoll.deploy.matching import Matcher, equal_places
from atoll.graph import make_graph
from atoll.partition.anchors import matched
from thread_fleet import deployed

pytest.importorskip("private_set_intersection.python", reason="openmined.psi is not installed")


def party(ids, name="party"):
    n = len(ids)
    x = np.eye(max(n, 2), 4, dtype=np.float32)[:n]
    return make_graph(
        x, np.zeros((2, 0), dtype=np.int64), np.zeros(n, dtype=np.int64),
        classes=2, ids=np.array(ids), name=name,
    )  # fmt: skip


def coordinator(tmp_path, graphs, **terms) -> Coordinator:
    return deployed(tmp_path, graphs, "fed-avg", terms=terms)


def rows_at(made, k):
    site = made.fleet.sites[made.plan.sites[k]]
    return made_rows(site.state / made.plan.run / "anchors.json")


def made_rows(path):
    return json.loads(path.read_text())["rows"]


THREE = [
    ["ann", "bob", "cid", "dan", "eve"],
    ["zoe", "eve", "bob", "yan"],
    ["dan", "zoe", "tom", "bob", "uwe"],
]


@pytest.mark.parametrize("how", ["psi", "hash"])
@pytest.mark.parametrize(
    "ids",
    [THREE, [[3, 1, 2], [9, 8, 7], [2, 9, 5]], [["a", "b"], ["c"], ["d"]], [["a"], ["a"], ["a"]]],
    ids=["text", "numbers", "disjoint", "all the same"],
)
def test_the_outcome_is_that_of_looking_at_all_ids(ids, how, tmp_path):
    graphs = [party(own, f"party {k}") for k, own in enumerate(ids)]
    made = coordinator(tmp_path, graphs, anchors=how)
    numbers = matched_anchors(made.fed, made.plan.terms.anchors)
    looked, expected = matched(graphs)
    for k in range(3):
        assert rows_at(made, k) == looked[k].anchors.tolist()
        assert numbers[k].tolist() == expected[k].tolist()


def test_a_dictionary_of_all_ids_recovers_nothing_from_the_transcript(tmp_path):
    """Neither as text nor under any hash that can be computed without a site's secret."""
    names = [f"person-{n:05d}" for n in range(60)]
    graphs = [party(names[:30]), party(names[20:50]), party(names[45:])]
    made = coordinator(tmp_path, graphs)
    matched_anchors(made.fed, made.plan.terms.anchors)
    seen = b"".join(made.fleet.transcript)
    points = {
        seen[i : i + 33] for i in range(len(seen) - 33) if seen[i] in (2, 3)
    }  # every place where a compressed point could begin
    psi = pytest.importorskip("private_set_intersection.python")
    attacker = psi.client.CreateWithNewKey(True)
    for name in names:
        assert name.encode() not in seen
        for algorithm in ("md5", "sha1", "sha256", "sha512", "blake2b"):
            assert hashlib.new(algorithm, name.encode()).digest() not in seen
    guesses = set(attacker.CreateRequest(names).encrypted_elements)
    assert not guesses & points
    # The key 1 gives the bare hash to the curve: what everybody could compute.
    bare = psi.client.CreateFromKey(b"\x00" * 31 + b"\x01", True).CreateRequest(names)
    assert not set(bare.encrypted_elements) & points


def test_salted_hashes_are_undone_by_a_dictionary(tmp_path, caplog):
    """Why they stand behind a flag, with a warning."""
    names = [f"person-{n}" for n in range(9)]
    made = coordinator(
        tmp_path, [party(names[:4]), party(names[2:7]), party(names[6:])], anchors="hash"
    )
    matched_anchors(made.fed, made.plan.terms.anchors)
    seen = b"".join(made.fleet.transcript)
    found = [n for n in names if hashlib.sha256(f"{made.plan.run}:{n}".encode()).digest() in seen]
    assert found == names
    assert "salted hashes" in caplog.text


def test_secrets_are_gone_when_the_matching_is_over(tmp_path):
    made = coordinator(tmp_path, [party(ids, f"p{k}") for k, ids in enumerate(THREE)])
    matched_anchors(made.fed, made.plan.terms.anchors)
    assert not list(tmp_path.rglob("secret*"))


def test_secrets_are_for_the_owner_to_read_and_no_two_are_alike(tmp_path):
    kept = []
    for name in ("first", "second"):
        Matcher(np.array(["ann", "bob"]), tmp_path / name).turn("blind", {}, {})
        (secret,) = (tmp_path / name).glob("secret*")
        assert secret.stat().st_mode & 0o077 == 0
        kept.append(read_tree(secret)[0]["key"])
    assert len(kept[0]) == len(kept[1]) == 32
    assert not torch.equal(*kept)


def test_twenty_thousand_ids_a_side_are_exact_and_quick(tmp_path):
    rng = np.random.default_rng(0)
    ids = rng.permutation(33_000)
    sides = [ids[:20_000], ids[13_000:]]
    started = time.monotonic()
    matchers = [Matcher(own, tmp_path / str(k)) for k, own in enumerate(sides)]
    first = [matcher.turn("blind", {}, {})[0] for matcher in matchers]
    raised = [matchers[k].turn("raise", first[1 - k], {})[0]["points"] for k in range(2)]
    a, b = equal_places(raised[1], raised[0])
    shared = [
        m.turn("anchors", {"shared": torch.from_numpy(p)}, {})
        for m, p in zip(matchers, (a, b), strict=True)
    ]
    seconds = time.monotonic() - started
    assert all(len(facts["rows"]) == 7_000 for _, facts in shared)
    for k, own in enumerate(sides):
        rows = made_rows(tmp_path / str(k) / "anchors.json")
        assert set(own[rows]) == set(sides[0]) & set(sides[1])
    assert seconds < 120
    print(f"20,000 ids per side: {seconds:.1f} s")
