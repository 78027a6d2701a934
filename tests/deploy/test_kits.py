"""What each side of a federation is given."""

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from atoll.data.parties import write_parties
from atoll.deploy.engines import engine_named
from atoll.deploy.envelope import Forged
from atoll.deploy.identity import identity_of
from atoll.deploy.keyring import enrol, public, revoke, signing_key
from atoll.deploy.kits import (
    engine_of,
    make_kits,
    renew_keys,
    revoke_site,
    run_client,
    sites_of,
)
from atoll.deploy.voice import voice_of
from atoll.errors import AtollError
from small_federations import community_parties
from thread_fleet import keys_of


@pytest.mark.parametrize(
    ("server", "sites", "sentence"),
    [
        ("localhost", ["a"], "HOST:PORT"),
        ("localhost:99999", ["a"], "HOST:PORT"),
        ("localhost:8002", ["a b"], "can't be a site's name"),
        ("localhost:8002", ["../x"], "can't be a site's name"),
        ("localhost:8002", ["coordinator"], "can't be a site's name"),
        ("localhost:8002", ["n\u043erth"], "can't be a site's name"),
        ("localhost:8002", ["north\u200b"], "can't be a site's name"),
        ("localhost:8002", ["\uff4eorth"], "can't be a site's name"),
        ("localhost:8002", ["north", "North"], "too like 'North'"),
    ],
)
def test_bad_input_to_keys_is_one_sentence(server, sites, sentence, tmp_path):
    with pytest.raises(AtollError, match=sentence):
        make_kits(tmp_path, engine_named("flower"), server, sites)


def test_sites_can_be_added_later_and_keep_their_numbers(tmp_path):
    pytest.importorskip("flwr")
    make_kits(tmp_path, engine_named("flower"), "localhost:8002", ["a", "b"])
    before = (tmp_path / "site-a" / "site.key").read_bytes()
    make_kits(tmp_path, engine_named("flower"), "localhost:8002", ["c"])
    assert sites_of(tmp_path) == ("a", "b", "c")
    assert (tmp_path / "site-a" / "site.key").read_bytes() == before
    assert (tmp_path / "site-a" / "ca.pem").read_bytes() == (
        tmp_path / "site-c" / "ca.pem"
    ).read_bytes()


@pytest.fixture(params=["nvflare", "flower"])
def engine(request):
    found = engine_named(request.param)
    pytest.importorskip(found.package)
    return found


def test_nothing_is_ever_readable_by_others(engine, tmp_path, monkeypatch):
    """Not even for a moment, and whatever the user's umask: no mode is changed afterwards."""
    monkeypatch.setattr(Path, "chmod", lambda *_, **__: None)
    monkeypatch.setattr(os, "chmod", lambda *_, **__: None)
    before = os.umask(0)
    try:
        make_kits(tmp_path / "kits", engine, "localhost:8002", ["a"])
    finally:
        assert os.umask(before) == 0
    found = list((tmp_path / "kits").rglob("*"))
    assert {p.name for p in found} >= {"authority.key", "coordinator.key", "signing.key"}
    assert [p for p in found if p.stat().st_mode & 0o077] == []


def secrets_in(folder):
    """Every private key of a folder, whatever the name of its file."""
    pattern = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----(.*?)-----END", re.DOTALL)
    found = set()
    for path in folder.rglob("*"):
        if path.is_file():
            text = path.read_bytes().decode(errors="ignore").replace("\\n", "\n")
            found |= {"".join(key.split()) for key in pattern.findall(text)}
    return found


def test_a_site_s_keys_are_in_its_own_kit_and_nowhere_else(engine, tmp_path):
    make_kits(tmp_path, engine, "localhost:8002", ["a", "b"])
    make_kits(tmp_path, engine, "localhost:8002", ["c"])
    own = {site: secrets_in(tmp_path / f"site-{site}") for site in "abc"}
    assert all(len(keys) >= 3 for keys in own.values())
    elsewhere = [secrets_in(tmp_path / side) for side in ("authority", "server", "operator")]
    for site, keys in own.items():
        others = set().union(*elsewhere, *(own[other] for other in "abc" if other != site))
        assert not keys & others


def test_a_kit_that_was_handed_out_is_not_made_a_second_time(engine, tmp_path):
    make_kits(tmp_path, engine, "localhost:8002", ["a", "b"])
    shutil.move(tmp_path / "site-a", tmp_path / "elsewhere")
    with pytest.raises(AtollError, match=r"a has a kit already.*atoll keys --renew a"):
        make_kits(tmp_path, engine, "localhost:8002", ["a"])
    assert not (tmp_path / "site-a").exists()


def test_sites_are_added_where_the_server_s_kit_is_no_more(engine, tmp_path):
    make_kits(tmp_path, engine, "localhost:8002", ["a"])
    for side in ("server", "operator"):
        shutil.move(tmp_path / side, tmp_path / f"moved-{side}")
    make_kits(tmp_path, engine, "localhost:8002", ["b"])
    assert not (tmp_path / "server").exists()
    shutil.copy(tmp_path / "authority" / "roster.signed", tmp_path / "moved-server")
    voice = voice_of(tmp_path / "moved-server")
    assert list(voice.roster.sites) == ["a", "b"]
    shutil.move(tmp_path / "moved-server", tmp_path / "server")
    assert sites_of(tmp_path) == ("a", "b")


def test_a_folder_of_kits_is_of_one_engine_and_one_server(engine, tmp_path):
    make_kits(tmp_path, engine, "localhost:8002", ["a"])
    other = engine_named("flower" if engine.name == "nvflare" else "nvflare")
    for given, server in ((other, "localhost:8002"), (engine, "localhost:8003")):
        with pytest.raises(AtollError, match="and a server at localhost:8002; add sites with the"):
            make_kits(tmp_path, given, server, ["b"])
    make_kits(tmp_path, engine, "", ["b"])
    assert sites_of(tmp_path) == ("a", "b")


def test_revoked_and_renewed(engine, tmp_path):
    make_kits(tmp_path, engine, "localhost:8002", ["a", "b"])
    old = identity_of(tmp_path / "site-b", tmp_path / "state")
    revoke_site(tmp_path, "b")
    assert sites_of(tmp_path) == ("a",)
    assert not (tmp_path / "site-b").exists()
    old.learn((tmp_path / "server" / "roster.signed").read_bytes())
    assert not old.on_roster
    renew_keys(tmp_path, "b")
    new = identity_of(tmp_path / "site-b", tmp_path / "new-state")
    assert new.on_roster
    assert public(new.signing) != public(old.signing)
    renew_keys(tmp_path, "a")
    assert sites_of(tmp_path) == ("a", "b")
    before = voice_of(tmp_path / "server").roster
    renew_keys(tmp_path, "coordinator")
    after = voice_of(tmp_path / "server").roster
    assert after.serial > before.serial
    assert before.coordinator in after.revoked
    for wrong in (revoke_site, renew_keys):
        with pytest.raises(AtollError, match="unknown site 'z'"):
            wrong(tmp_path, "z")
    with pytest.raises(AtollError, match="atoll keys --renew coordinator"):
        revoke_site(tmp_path, "coordinator")


def test_a_client_whose_key_was_revoked_does_not_start(tmp_path):
    engine = engine_named("flower")
    pytest.importorskip(engine.package)
    [data] = write_parties(community_parties((19,)), tmp_path / "data")
    make_kits(tmp_path, engine, "localhost:8002", ["a", "b"])
    kit = shutil.copytree(tmp_path / "site-b", tmp_path / "kit")
    revoke_site(tmp_path, "b")
    shutil.copy(tmp_path / "authority" / "roster.signed", kit)
    with pytest.raises(AtollError, match="was revoked; ask"):
        run_client(data, kit, tmp_path / "state")


def test_a_roster_or_key_that_was_changed_is_one_sentence(tmp_path):
    kits = keys_of(tmp_path, ["a"])
    roster = kits / "server" / "roster.signed"
    whole = roster.read_bytes()
    roster.write_bytes(whole.replace(b'"serial": 2', b'"serial": 9'))
    with pytest.raises(AtollError, match=r"not to be trusted: .* the authority has not signed"):
        voice_of(kits / "server")
    roster.write_bytes(whole)
    (kits / "server" / "coordinator.key").write_bytes(
        (kits / "site-a" / "signing.key").read_bytes()
    )
    with pytest.raises(AtollError, match="not the one on the roster"):
        voice_of(kits / "server")
    (kits / "server" / "coordinator.key").unlink()
    with pytest.raises(AtollError, match=r"lacks the keys .* make a new kit with: atoll keys"):
        voice_of(kits / "server")


def test_a_roster_of_another_authority_is_not_learnt_however_high_its_number(tmp_path):
    """Nor one that the state folder has, nor one with a signature of the true authority's over
    another text."""
    kits, others = keys_of(tmp_path / "kits", ["a", "b"]), keys_of(tmp_path / "others", ["a", "b"])
    identity = identity_of(kits / "site-a", tmp_path / "state")
    true = (kits / "authority" / "roster.signed").read_bytes()
    foreign = signing_key(others / "authority" / "authority.key")
    roster = identity.roster
    coordinator = public(signing_key(others / "server" / "coordinator.key"))
    newer = replace(roster, serial=10**9, coordinator=coordinator)
    signature, text = true.partition(b"\n")[0], newer.signed(foreign).partition(b"\n")[2]
    for content in (newer.signed(foreign), signature + b"\n" + text):
        with pytest.raises(Forged):
            identity.learn(content)
        assert identity.roster == roster
        (tmp_path / "state").mkdir(exist_ok=True)
        (tmp_path / "state" / "roster.signed").write_bytes(content)
        assert identity_of(kits / "site-a", tmp_path / "state").roster == roster


@pytest.mark.parametrize("key", ["signing.key", "opening.key"])
def test_a_secret_that_others_can_read_is_not_used(key, tmp_path):
    """As after a copy by way of a stick."""
    kit = keys_of(tmp_path / "kits", ["a"]) / "site-a"
    (kit / key).chmod(0o644)
    with pytest.raises(AtollError, match=f"{key}' can be read by others; set its mode to 600"):
        identity_of(kit, tmp_path / "state")


def test_a_server_does_not_go_back_to_an_older_roster(tmp_path):
    """As a backup of its kit would have it: who was revoked since would be heard again."""
    kits, runs = tmp_path / "kits", tmp_path / "runs"
    enrol(kits, ["north", "south"])
    runs.mkdir()
    older = (kits / "server" / "roster.signed").read_bytes()
    assert voice_of(kits / "server", runs).knows("south")
    revoke(kits, "south")
    assert not voice_of(kits / "server", runs).knows("south")
    (kits / "server" / "roster.signed").write_bytes(older)
    with pytest.raises(AtollError, match="is number 3, and number 4 was in force here; put the"):
        voice_of(kits / "server", runs)
    shutil.copy(runs / "roster.signed", kits / "server" / "roster.signed")
    assert not voice_of(kits / "server", runs).knows("south")
    enrol(tmp_path / "others", ["north"])  # another federation begins in the same folder
    assert voice_of(tmp_path / "others" / "server", runs).roster.serial == 2


@pytest.mark.parametrize("name", ["nvflare", "flower"])
def test_a_kit_knows_its_engine_and_where_the_server_listens(name, tmp_path):
    engine = engine_named(name)
    pytest.importorskip(engine.package)
    make_kits(tmp_path, engine, "localhost:8123", ["a"])
    assert engine_of(tmp_path / "server").name == name
    assert engine_of(tmp_path / "site-a").name == name
    assert engine.port(tmp_path / "server") == 8123


def test_a_folder_that_is_no_kit_is_one_sentence(tmp_path):
    with pytest.raises(AtollError, match="is no kit; make one with: atoll keys"):
        engine_of(tmp_path)
