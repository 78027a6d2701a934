"""The record of messages as evidence: whatever is changed in a copy of it is found."""

import json
import random
import shutil
from dataclasses import replace

import polars
import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from atoll.deploy.evidence.chain import FILE, START, Broken, Chain, _hash, read_chain
from atoll.deploy.evidence.sealing import ServerRecord, SiteRecord
from atoll.deploy.evidence.signing import canonical
from atoll.deploy.evidence.verify import verified
from atoll.errors import AtollError
from atoll.federation.codec import decode_request
from atoll.federation.ledger import Ledger
from small_federations import community_parties
from thread_fleet import again, deployed


def parties():
    return community_parties((19, 25, 14))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A complete run of two rounds: its directory and the sites' state folders."""
    root = tmp_path_factory.mktemp("evidence")
    coordinator = deployed(root, parties(), "fed-avg", rounds=2)
    coordinator.run()
    return root, coordinator


def folders(root, coordinator):
    return root / "run", [root / "state" / site for site in coordinator.plan.sites]


def test_both_sides_of_an_honest_run_agree(run):
    run_dir, states = folders(*run)
    verdict = verified(run_dir, states)
    assert verdict.problems == []
    assert verdict.closed
    assert sorted(verdict.compared) == sorted(run[1].plan.sites)
    assert set(verdict.countersigned.values()) == {2}
    # hello, begin, two rounds of train and evaluate, finish: three sites each.
    assert verdict.messages == 3 * 7
    asked = [r["message"]["ask"] for r in read_chain(run_dir / FILE) if r["what"] == "sent"]
    assert asked[:3] == ["hello"] * 3
    assert asked[-1] == "finish"


def test_matching_is_on_record(tmp_path):
    pytest.importorskip("rbcl")
    coordinator = deployed(tmp_path, parties(), "fed-gala", rounds=1)
    coordinator.run()
    site = tmp_path / "state" / coordinator.plan.sites[0] / coordinator.plan.run
    steps = [r["message"]["step"] for r in read_chain(site / FILE) if r["what"] == "received"]
    assert {"raise", "anchors"} <= set(steps)
    assert verified(*folders(tmp_path, coordinator)).problems == []


def test_what_the_ledger_says_was_sent_is_what_sites_have_on_record(run):
    """Every tensor of a step in the table is in some message of the site's own record."""
    run_dir, states = folders(*run)
    table = polars.read_parquet(run_dir / "ledger.parquet")
    for client, state in enumerate(states):
        records = read_chain(state / run[1].plan.run / FILE)
        got = [r["message"] for r in records if r["what"] == "received"]
        named = {(m["round"], m["step"], t[0]) for m in got for t in m["tensors"]}
        down = table.filter((polars.col("client") == client) & (polars.col("direction") == "down"))
        for round, step, name in down.select("round", "step", "name").iter_rows():
            assert (round, step, f"shared/{name}") in named


def test_a_run_that_was_interrupted_goes_on_with_the_same_record(tmp_path):
    broken = deployed(tmp_path, parties(), "fed-avg", rounds=4)
    broken.stopped = lambda: broken.rounds.done == 2
    with pytest.raises(AtollError, match="ended after round 2"):
        broken.run()
    verdict = verified(*folders(tmp_path, broken))
    assert (verdict.problems, verdict.closed) == ([], False)
    again(broken).run()
    verdict = verified(*folders(tmp_path, broken))
    assert (verdict.problems, verdict.closed) == ([], True)
    assert set(verdict.countersigned.values()) == {4}


def test_a_torn_last_line_is_cut_off_by_who_goes_on_and_by_nobody_else(tmp_path):
    chain = Chain(tmp_path / FILE)
    chain.append(what="opened")
    chain.append(what="sent")
    whole = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(whole[:-7])
    with pytest.raises(Broken, match="torn"):
        read_chain(tmp_path / FILE)
    assert Chain(tmp_path / FILE).count == 1
    assert len(read_chain(tmp_path / FILE)) == 1


def test_what_was_sent_to_a_dead_site_is_not_billed(tmp_path):
    coordinator = deployed(tmp_path, parties(), "fed-avg", rounds=2, terms={"deadline": 3.0})
    fleet, dead = coordinator.fleet, coordinator.plan.sites[0]

    def fault(site, message):
        if site == dead and decode_request(message).ask == "step":
            raise ConnectionError

    fleet.fault = fault
    coordinator.run()
    table = polars.read_parquet(tmp_path / "run" / "ledger.parquet")
    assert 0 not in table["client"].to_list()
    assert table["client"].n_unique() == 2
    verdict = verified(*folders(tmp_path, coordinator))
    assert verdict.problems == []
    assert verdict.countersigned[dead] == -1


def test_a_site_does_not_countersign_another_message_than_it_has(tmp_path, caplog, monkeypatch):
    coordinator = deployed(tmp_path, parties(), "fed-avg", rounds=3)
    first, honest = coordinator.plan.sites[0], ServerRecord.seal

    def lying(record, site, round, last=False):
        seal = honest(record, site, round, last)
        if site == first and round == 2:  # it claims that it got something else
            seal["exchanged"] = [[id, asked, "0" * 64] for id, asked, _ in seal["exchanged"]]
        return seal

    monkeypatch.setattr(ServerRecord, "seal", lying)
    coordinator.run()
    assert first in coordinator.fed.suspended
    assert "has another message" in caplog.text


def test_a_countersignature_is_of_the_site_s_key_on_the_roster(tmp_path, caplog, monkeypatch):
    """With a key of its own making it could say later that somebody else has signed."""
    coordinator = deployed(tmp_path, parties(), "fed-avg", rounds=2)
    liar, state = coordinator.plan.sites[0], tmp_path / "state" / coordinator.plan.sites[0]

    def deniable(folder, run, key):
        mine = Ed25519PrivateKey.generate() if state in folder.parents else key
        return SiteRecord(folder, run, mine)

    monkeypatch.setattr("atoll.deploy.site.SiteRecord", deniable)
    coordinator.run()
    assert f"site '{liar}' did not countersign" in caplog.text
    verdict = verified(tmp_path / "run", [])
    assert verdict.countersigned[liar] == -1
    assert set(verdict.countersigned.values()) == {-1, 2}


# Every change of a copy is found.


def rows(file):
    return file.read_bytes().split(b"\n")[:-1]


def rewritten(file, lines):
    file.write_bytes(b"".join(line + b"\n" for line in lines))


def change_a_byte(file, coins):
    content = bytearray(file.read_bytes())
    content[coins.randrange(len(content))] ^= 1 << coins.randrange(8)
    file.write_bytes(bytes(content))


def drop_a_row(file, coins):
    lines = rows(file)
    del lines[coins.randrange(len(lines))]
    rewritten(file, lines)


def swap_two_rows(file, coins):
    lines = rows(file)
    i, j = coins.sample(range(len(lines)), 2)
    lines[i], lines[j] = lines[j], lines[i]
    rewritten(file, lines)


def cut_the_end(file, coins):
    content = file.read_bytes()
    file.write_bytes(content[: coins.randrange(len(content))])


def cut_whole_rows(file, coins):
    lines = rows(file)
    rewritten(file, lines[: coins.randrange(len(lines))])


def chained_anew(records):
    """All hashes as they must be, without anybody's key."""
    before, lines = START, []
    for n, record in enumerate(records):
        numbered = {k: v for k, v in record.items() if k != "hash"} | {"n": n, "before": before}
        before = _hash(numbered)
        lines.append(canonical(numbered | {"hash": before}).encode())
    return lines


def altered_row(record, coins):
    altered = json.loads(json.dumps(record))
    where = altered.get("message") or altered.get("seal") or altered
    key = coins.choice([k for k in where if k not in ("n", "before", "hash")])
    value = where[key]
    if isinstance(value, int):
        where[key] = value + 1
    elif isinstance(value, str):
        where[key] = value[:-1] + ("0" if value[-1:] != "0" else "1")
    elif isinstance(value, list):
        where[key] = [*value, ["model/more", "float32", [1]]]
    else:
        where[key] = {**value, "ledger.parquet": "0" * 64}
    return altered


def forge(file, coins):
    """Change, drop or double a row and chain all anew, as somebody without a key can."""
    records = [json.loads(line) for line in rows(file)]
    i = coins.randrange(len(records))
    how = coins.choice(["alter", "drop", "double"])
    if how == "alter":
        records[i] = altered_row(records[i], coins)
    elif how == "drop":
        del records[i]
    else:
        records.insert(i, records[i])
    rewritten(file, chained_anew(records))


def forge_with_another_key(file, coins):
    """Open the record in the name of a key of one's own, and chain all anew."""
    records = [json.loads(line) for line in rows(file)]
    own = Ed25519PrivateKey.generate().public_key().public_bytes_raw().hex()
    records[0]["key"] = own
    for record in records:
        if coins.random() < 0.5 and "seal" in record and "key" in record["seal"]:
            record["seal"]["key"] = own
    rewritten(file, chained_anew(records))


TAMPERINGS = [
    change_a_byte,
    drop_a_row,
    swap_two_rows,
    cut_the_end,
    cut_whole_rows,
    forge,
    forge_with_another_key,
]


def test_a_thousand_tampered_copies_are_all_found(run, tmp_path):
    run_dir, states = folders(*run)
    server, sites = tmp_path / "run", [tmp_path / state.name for state in states]
    for original, copied in zip([run_dir, *states], [server, *sites], strict=True):
        shutil.copytree(original, copied)
    assert verified(server, sites).problems == []
    name = run[1].plan.run
    files = [server / FILE, *(site / name / FILE for site in sites)]
    missed = []
    for i in range(1000):
        coins = random.Random(i)
        file, tamper = files[i % len(files)], TAMPERINGS[i % len(TAMPERINGS)]
        whole = file.read_bytes()
        tamper(file, coins)
        assert file.read_bytes() != whole
        # One side more than the one that was changed is enough.
        if not verified(server, [sites[max(i % len(files) - 1, 0)]]).problems:
            missed.append((i, file.parent.name, tamper.__name__))
        file.write_bytes(whole)
    assert missed == []


def test_a_table_that_was_changed_after_the_end_is_found(run, tmp_path):
    shutil.copytree(run[0] / "run", tmp_path / "run")
    for name in ("ledger.parquet", "rounds.parquet", "config.toml"):
        file = tmp_path / "run" / name
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        assert any(name in problem for problem in verified(tmp_path / "run").problems)
        file.write_bytes(whole)


def test_the_record_of_another_site_or_run_is_not_taken_for_this_one(run, tmp_path):
    other = deployed(tmp_path, parties(), "fed-avg", rounds=1)
    other.run()
    strange = tmp_path / "state" / other.plan.sites[0] / other.plan.run
    assert "of no site" in verified(folders(*run)[0], [strange]).problems[0]


def test_never_came_takes_off_what_was_last_sent():
    ledger = Ledger()
    sent = {"model/w": torch.zeros(2)}
    ledger.sent(1, "train", (0, 1, 2), sent, {})
    ledger.received(1, "train", (0, 1, 2), {"model/w": torch.zeros(3, 2)}, None)
    ledger.sent(1, "train", (0, 1, 2), sent, {})
    ledger.never_came(1, "train", {1})
    assert [entry.clients for entry in ledger.entries] == [(0, 1, 2), (0, 1, 2), (0, 2)]
    assert replace(ledger.entries[0], clients=(0, 2)) == ledger.entries[2]
