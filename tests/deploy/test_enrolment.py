"""Sites that make their own keys: what leaves them, what the authority signs, what is refused."""

import json
import os
import shutil
from pathlib import Path

import pytest

from atoll.deploy.engines import engine_named
from atoll.deploy.enrolment import install_answer, make_request, sign_request
from atoll.deploy.enrolment_server import (
    install_server_answer,
    is_of_a_server,
    make_server_request,
    sign_server_request,
)
from atoll.deploy.identity import identity_of
from atoll.deploy.kits import found, make_kits, revoke_site, sites_of
from atoll.deploy.voice import voice_of
from atoll.errors import AtollError
from test_kits import secrets_in

SERVER = "localhost:8002"


@pytest.fixture(params=["nvflare", "flower"])
def engine(request):
    found = engine_named(request.param)
    pytest.importorskip(found.package)
    return found


def enrolled(tmp_path, engine, site="north", **options):
    """A site's kit, made there, signed at the authority, installed there."""
    request, asked = make_request(tmp_path / site, engine, site)
    answer, seen, authority = sign_request(tmp_path / "kits", request, SERVER, **options)
    kit, trusted = install_answer(tmp_path / site, answer)
    assert (asked, authority) == (seen, trusted)
    return kit


def test_a_site_s_secret_keys_never_leave_it(engine, tmp_path):
    kit = enrolled(tmp_path, engine)
    own = secrets_in(kit)
    assert len(own) == 3  # to sign, to open, and the engine's
    shutil.copy(tmp_path / "north" / "north.request", tmp_path / "kits")
    assert not own & secrets_in(tmp_path / "kits")


def test_a_kit_of_a_site_s_own_making_is_as_one_that_the_authority_made(engine, tmp_path):
    kit = enrolled(tmp_path, engine)
    make_kits(tmp_path / "kits", engine, "", ["south"])
    other = tmp_path / "kits" / "site-south"
    assert sites_of(tmp_path / "kits") == ("north", "south")

    def names(folder):
        return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}

    assert names(kit) - {"site.pub"} == names(other)
    identity = identity_of(kit, tmp_path / "state")
    assert identity.on_roster
    assert identity.coordinator.hex() == voice_of(tmp_path / "kits" / "server").roster.coordinator
    for name in ("startup/fed_client.json", "local/resources.json", "kit.json"):
        if (kit / name).is_file():
            mine, theirs = ((k / name).read_text() for k in (kit, other))
            assert json.loads(mine) == json.loads(theirs.replace("south", "north"))


def test_nothing_secret_is_ever_readable_by_others(engine, tmp_path, monkeypatch):
    """Not even for a moment, and whatever the user's umask: no mode is changed afterwards."""
    monkeypatch.setattr(Path, "chmod", lambda *_, **__: None)
    monkeypatch.setattr(os, "chmod", lambda *_, **__: None)
    before = os.umask(0)
    try:
        kit = enrolled(tmp_path, engine)
    finally:
        assert os.umask(before) == 0
    made = [kit, *kit.rglob("*"), *(tmp_path / "kits" / "authority").rglob("*")]
    assert [p for p in made if p.stat().st_mode & 0o077] == []


def test_an_authority_is_made_for_a_server_alone(engine, tmp_path):
    found(tmp_path / "kits", engine, SERVER)
    assert sites_of(tmp_path / "kits") == ()
    assert not secrets_in(tmp_path / "kits" / "server") & secrets_in(
        tmp_path / "kits" / "authority"
    )
    enrolled(tmp_path, engine)
    assert sites_of(tmp_path / "kits") == ("north",)


def test_a_name_is_given_once_and_renewed_on_purpose(engine, tmp_path):
    kit = enrolled(tmp_path, engine)
    old = identity_of(kit, tmp_path / "state")
    shutil.move(kit, tmp_path / "old")
    request, _ = make_request(tmp_path / "north", engine, "north")
    with pytest.raises(AtollError, match=r"has keys already; .* --renew north --sign"):
        sign_request(tmp_path / "kits", request)
    with pytest.raises(AtollError, match="not of 'south'"):
        sign_request(tmp_path / "kits", request, renew="south")
    answer, *_ = sign_request(tmp_path / "kits", request, renew="north")
    install_answer(tmp_path / "north", answer)
    assert identity_of(kit, tmp_path / "new-state").on_roster
    old.learn((tmp_path / "kits" / "authority" / "roster.signed").read_bytes())
    assert not old.on_roster


def test_no_two_names_differ_in_capitals_only(tmp_path):
    engine = engine_named("flower")
    pytest.importorskip(engine.package)
    enrolled(tmp_path, engine)
    file, _ = make_request(tmp_path / "other", engine, "North")
    with pytest.raises(AtollError, match="'North' is too like 'north'"):
        sign_request(tmp_path / "kits", file)


def test_a_revoked_key_is_not_signed_again(engine, tmp_path):
    enrolled(tmp_path, engine)
    revoke_site(tmp_path / "kits", "north")
    with pytest.raises(AtollError, match="was revoked; have it make a new request"):
        sign_request(tmp_path / "kits", tmp_path / "north" / "north.request")


def test_one_key_is_one_site_s(tmp_path):
    engine = engine_named("flower")
    pytest.importorskip(engine.package)
    enrolled(tmp_path, engine)
    kit = tmp_path / "thief" / "site-thief"
    file, _ = make_request(tmp_path / "thief", engine, "thief")
    table = json.loads(file.read_bytes().partition(b"\n")[2])
    other = json.loads((tmp_path / "north" / "north.request").read_bytes().partition(b"\n")[2])
    table["keys"]["opens"] = other["keys"]["opens"]
    _write_signed(file, kit, table)
    with pytest.raises(AtollError, match="is another's"):
        sign_request(tmp_path / "kits", file)


@pytest.mark.parametrize("other_form", [str.upper, lambda digits: f" {digits}"])
def test_a_key_has_one_form(other_form, tmp_path):
    """A revoked key in capitals would pass for a new one, and the server would hear it again."""
    engine = engine_named("flower")
    pytest.importorskip(engine.package)
    kit = enrolled(tmp_path, engine)
    revoke_site(tmp_path / "kits", "north")
    file = tmp_path / "north" / "north.request"
    table = json.loads(file.read_bytes().partition(b"\n")[2])
    assert other_form(table["keys"]["signs"]) != table["keys"]["signs"]
    table["keys"]["signs"] = other_form(table["keys"]["signs"])
    _write_signed(file, kit, table)
    with pytest.raises(AtollError, match="is no request"):
        sign_request(tmp_path / "kits", file)
    assert sites_of(tmp_path / "kits") == ()


def test_a_site_is_not_renewed_in_name_only(tmp_path):
    """Somebody who has a site's old key sends its old request, while new keys are to be signed."""
    engine = engine_named("flower")
    pytest.importorskip(engine.package)
    enrolled(tmp_path, engine)
    request = tmp_path / "north" / "north.request"
    with pytest.raises(AtollError, match="renewed in name only"):
        sign_request(tmp_path / "kits", request, renew="north")


def test_one_key_of_flower_s_is_one_site_s(tmp_path):
    engine = engine_named("flower")
    pytest.importorskip(engine.package)
    enrolled(tmp_path, engine)
    file, _ = make_request(tmp_path / "thief", engine, "thief")
    table = json.loads(file.read_bytes().partition(b"\n")[2])
    table["engine_part"] = (tmp_path / "north" / "site-north" / "site.pub").read_text()
    _write_signed(file, tmp_path / "thief" / "site-thief", table)
    with pytest.raises(AtollError, match="is another's"):
        sign_request(tmp_path / "kits", file)
    assert sites_of(tmp_path / "kits") == ("north",)


@pytest.mark.parametrize("name", ["localhost", "LocalHost", "server"])
def test_no_site_is_called_like_the_server(name, engine, tmp_path):
    """Its certificate would be good for the server's host, so that it could pass for the server."""
    file, _ = make_request(tmp_path / name, engine, name)
    with pytest.raises(AtollError, match="is the server's name"):
        sign_request(tmp_path / "kits", file, SERVER)
    assert sites_of(tmp_path / "kits") == ()
    with pytest.raises(AtollError, match="is the server's name"):
        make_kits(tmp_path / "others", engine, SERVER, [name])


def test_a_kit_stays_with_its_authority(tmp_path):
    """Whoever has seen a request can make an authority that answers it."""
    engine = engine_named("flower")
    pytest.importorskip(engine.package)
    kit = enrolled(tmp_path, engine)
    before = {p: p.read_bytes() for p in kit.rglob("*") if p.is_file()}
    request = tmp_path / "north" / "north.request"
    answer, *_ = sign_request(tmp_path / "evil", request, "evil:1")
    with pytest.raises(AtollError, match="of another authority than the one that"):
        install_answer(tmp_path / "north", answer)
    assert {p: p.read_bytes() for p in kit.rglob("*") if p.is_file()} == before
    install_answer(tmp_path / "north", tmp_path / "kits" / "north.answer")


def test_a_request_that_is_refused_takes_nothing_away(engine, tmp_path):
    """Keys that were made here, and what an operator registers, go once there are new ones."""
    make_kits(tmp_path / "kits", engine, SERVER, ["north"])
    file, _ = make_request(tmp_path / "north", engine, "north")
    table = json.loads(file.read_bytes().partition(b"\n")[2])
    _write_signed(file, tmp_path / "north" / "site-north", table | {"engine_part": "none"})
    before = {p: p.read_bytes() for p in (tmp_path / "kits").rglob("*") if p.is_file()}
    with pytest.raises(AtollError, match="request"):
        sign_request(tmp_path / "kits", file, renew="north")
    assert {p: p.read_bytes() for p in (tmp_path / "kits").rglob("*") if p.is_file()} == before


def test_a_site_s_own_kit_beside_the_authority_is_left_alone(tmp_path):
    """Somebody tries all of it in one folder."""
    engine = engine_named("flower")
    pytest.importorskip(engine.package)
    for options in ({}, {"renew": "north"}):
        shutil.rmtree(tmp_path / "site-north", ignore_errors=True)
        request, _ = make_request(tmp_path, engine, "north")
        answer, *_ = sign_request(tmp_path, request, SERVER, **options)
        kit, _ = install_answer(tmp_path, answer)
        assert identity_of(kit, tmp_path / "state").on_roster


def _write_signed(file, kit, table):
    """A request with other content, signed by the site that wrote it."""
    from atoll.deploy.keyring import signing_key

    text = json.dumps(table).encode()
    signature = signing_key(kit / "signing.key").sign(b"atoll request for keys\0" + text)
    file.write_bytes(signature.hex().encode() + b"\n" + text)


@pytest.mark.parametrize("what", ["name", "keys", "engine_part"])
def test_a_request_that_was_changed_is_refused(what, engine, tmp_path):
    file, _ = make_request(tmp_path / "north", engine, "north")
    line, _, text = file.read_bytes().partition(b"\n")
    table = json.loads(text)
    false = {"name": "south", "keys": {"signs": "00" * 32, "opens": "11" * 32}, "engine_part": "x"}
    file.write_bytes(line + b"\n" + json.dumps(table | {what: false[what]}).encode())
    with pytest.raises(AtollError, match="not signed by the key that it names"):
        sign_request(tmp_path / "kits", file, SERVER)
    assert not (tmp_path / "kits").exists()


@pytest.mark.parametrize("part", ["", "no certificate", "of another name"])
def test_the_engine_s_part_is_looked_at(part, engine, tmp_path):
    """A hostile site signs it as it should, and asks for what it must not get."""
    file, _ = make_request(tmp_path / "north", engine, "north")
    table = json.loads(file.read_bytes().partition(b"\n")[2])
    if part == "of another name":
        if engine.name == "flower":
            pytest.skip("a key of Flower's bears no name")
        part = engine.request(tmp_path / "other", "operator@atoll.org")
    _write_signed(file, tmp_path / "north" / "site-north", table | {"engine_part": part})
    with pytest.raises(AtollError, match="request"):
        sign_request(tmp_path / "kits", file, SERVER)
    assert sites_of(tmp_path / "kits") == ()


@pytest.mark.parametrize("content", [b"", b"00", b"zz\n{}", b"00\n[]", b"00\n" + b"[" * 10**5])
def test_a_file_that_is_neither_is_one_sentence(content, tmp_path):
    (tmp_path / "file").write_bytes(content)
    for wrong in (
        lambda: sign_request(tmp_path / "kits", tmp_path / "file", SERVER),
        lambda: install_answer(tmp_path, tmp_path / "file"),
        lambda: install_answer(tmp_path, tmp_path / "missing"),
    ):
        with pytest.raises(AtollError):
            wrong()


def test_an_answer_that_was_changed_or_is_another_s_is_refused(engine, tmp_path):
    kit = enrolled(tmp_path, engine)
    answer = tmp_path / "kits" / "north.answer"
    line, _, text = answer.read_bytes().partition(b"\n")
    table = json.loads(text)
    for change in ({"server": "evil:1"}, {"given": {}}, {"roster": ""}):
        false = tmp_path / "false.answer"
        false.write_bytes(line + b"\n" + json.dumps(table | change).encode())
        with pytest.raises(AtollError, match="not signed by the authority"):
            install_answer(tmp_path / "north", false)
    # Keys that were made anew since: the roster has the old ones.
    shutil.rmtree(kit)
    (tmp_path / "north" / "north.request").unlink()
    make_request(tmp_path / "north", engine, "north")
    with pytest.raises(AtollError, match="no answer to this kit's request"):
        install_answer(tmp_path / "north", answer)


def test_keys_are_not_made_over_others(engine, tmp_path):
    make_request(tmp_path, engine, "north")
    with pytest.raises(AtollError, match="has keys already"):
        make_request(tmp_path, engine, "north")
    with pytest.raises(AtollError, match="can't be a site's name"):
        make_request(tmp_path, engine, "../x")


def test_requests_of_another_engine_are_refused(tmp_path):
    for name in ("flower", "nvflare"):
        pytest.importorskip(engine_named(name).package)
    enrolled(tmp_path, engine_named("flower"))
    file, _ = make_request(tmp_path / "south", engine_named("nvflare"), "south")
    with pytest.raises(AtollError, match="is for nvflare; the federation in"):
        sign_request(tmp_path / "kits", file)


def server_enrolled(tmp_path, engine, **options):
    """A server's kits, made there, signed at the authority, installed there."""
    request, asked = make_server_request(tmp_path / "there", engine, SERVER)
    answer, seen, authority = sign_server_request(tmp_path / "kits", request, **options)
    kit, trusted = install_server_answer(tmp_path / "there", answer)
    assert (asked, authority) == (seen, trusted)
    assert is_of_a_server(request)
    assert is_of_a_server(answer)
    return kit


def test_a_server_s_secret_keys_never_leave_it(engine, tmp_path):
    kit = server_enrolled(tmp_path, engine)
    own = secrets_in(kit) | secrets_in(kit.parent / "operator")
    assert len(own) == {"nvflare": 3, "flower": 2}[engine.name]  # Flower's operator has none
    assert not own & secrets_in(tmp_path / "kits")
    assert not secrets_in(tmp_path / "kits" / "server")
    assert not secrets_in(tmp_path / "kits" / "operator")
    made = [p for side in (kit, kit.parent / "operator") for p in side.rglob("*")]
    assert [p for p in made if p.stat().st_mode & 0o077] == []


def test_kits_of_a_server_s_own_making_are_as_those_that_the_authority_made(engine, tmp_path):
    """And sites that were signed before and after hear the new coordinator."""
    before = enrolled(tmp_path, engine, "north")
    found(tmp_path / "others", engine, SERVER)
    kit = server_enrolled(tmp_path, engine)
    after = enrolled(tmp_path, engine, "south")

    def names(folder):
        return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}

    assert names(kit) == names(tmp_path / "others" / "server")
    registered = {"sites/north.pub"} if engine.name == "flower" else set()
    operator = names(kit.parent / "operator") - {"atoll.json"}
    assert operator - registered == names(tmp_path / "others" / "operator")
    for name in ("startup/fed_server.json", "local/resources.json", "kit.json"):
        if (kit / name).is_file():
            theirs = tmp_path / "others" / "server" / name
            assert json.loads((kit / name).read_text()) == json.loads(theirs.read_text())
    voice = voice_of(kit)
    assert voice.knows("north")
    old, new = (identity_of(k, tmp_path / f"state-{k.name}") for k in (before, after))
    old.learn(voice.signed_roster)
    assert old.coordinator == new.coordinator == bytes.fromhex(voice.roster.coordinator)


def test_a_server_is_renewed_on_purpose(engine, tmp_path):
    kit = server_enrolled(tmp_path, engine)
    old = voice_of(kit).roster.coordinator
    shutil.move(kit.parent, tmp_path / "old")
    request, _ = make_server_request(tmp_path / "there", engine, SERVER)
    with pytest.raises(AtollError, match=r"has keys already; .* --renew coordinator --sign FILE"):
        sign_server_request(tmp_path / "kits", request)
    answer, *_ = sign_server_request(tmp_path / "kits", request, renew="coordinator")
    roster = voice_of(install_server_answer(tmp_path / "there", answer)[0]).roster
    assert roster.coordinator != old
    assert old in roster.revoked
    with pytest.raises(AtollError, match="its key was revoked"):
        sign_server_request(tmp_path / "kits", tmp_path / "old" / "coordinator.request")
    with pytest.raises(AtollError, match="no answer to this kit's request"):
        install_server_answer(tmp_path / "old", answer)


@pytest.mark.parametrize("what", ["server", "signs", "operator", "given", "roster"])
def test_what_a_server_and_the_authority_send_is_refused_if_it_was_changed(what, engine, tmp_path):
    request, _ = make_server_request(tmp_path / "there", engine, SERVER)
    answer, *_ = sign_server_request(tmp_path / "kits", request)
    file, use = (
        (answer, lambda: install_server_answer(tmp_path / "there", answer))
        if what in ("given", "roster")
        else (request, lambda: sign_server_request(tmp_path / "kits", request))
    )
    line, _, text = file.read_bytes().partition(b"\n")
    table = json.loads(text)
    table[what] = {"server": {}, "operator": {}} if what == "given" else "localhost:1"
    if what == "signs":
        table[what] = "00" * 32
    file.write_bytes(line + b"\n" + json.dumps(table, indent=1).encode() + b"\n")
    with pytest.raises(AtollError, match="is not signed by the"):
        use()


def test_a_server_s_keys_are_not_made_over_others(engine, tmp_path):
    (tmp_path / "operator").mkdir()
    with pytest.raises(AtollError, match="is there already"):
        make_server_request(tmp_path, engine, SERVER)
    with pytest.raises(AtollError, match="write --server as HOST:PORT"):
        make_server_request(tmp_path / "there", engine, "")


def _write_signed_by_server(file, folder, table):
    from atoll.deploy.keyring import signing_key

    text = json.dumps(table).encode()
    signature = signing_key(folder / "server" / "coordinator.key").sign(
        b"atoll request for keys\0" + text
    )
    file.write_bytes(signature.hex().encode() + b"\n" + text)


@pytest.mark.parametrize(
    "address", ["../../elsewhere:8002", "/tmp/x:8002", "a b:8002", "-x:8002", f"{'a' * 300}:8002"]
)
def test_an_address_leads_nowhere(address, engine, tmp_path):
    """It comes with a request, and engines name files by it."""
    file, _ = make_server_request(tmp_path / "there", engine, SERVER)
    table = json.loads(file.read_bytes().partition(b"\n")[2])
    _write_signed_by_server(file, tmp_path / "there", table | {"address": address})
    with pytest.raises(AtollError, match="is no address"):
        sign_server_request(tmp_path / "kits", file)
    assert not (tmp_path / "kits").exists()


@pytest.mark.parametrize("part", ["server", "operator"])
def test_a_server_s_request_that_is_refused_takes_nothing_away(part, engine, tmp_path):
    if (part, engine.name) == ("operator", "flower"):
        pytest.skip("an operator has no key of Flower's")
    found(tmp_path / "kits", engine, SERVER)
    file, _ = make_server_request(tmp_path / "there", engine, SERVER)
    table = json.loads(file.read_bytes().partition(b"\n")[2])
    _write_signed_by_server(file, tmp_path / "there", table | {part: "none"})
    before = {p: p.read_bytes() for p in (tmp_path / "kits").rglob("*") if p.is_file()}
    with pytest.raises(AtollError, match="request"):
        sign_server_request(tmp_path / "kits", file)
    assert {p: p.read_bytes() for p in (tmp_path / "kits").rglob("*") if p.is_file()} == before


def test_a_server_s_own_folder_is_not_the_authority_s(tmp_path):
    """Its keys would be deleted as those that the authority had made."""
    engine = engine_named("flower")
    pytest.importorskip(engine.package)
    file, _ = make_server_request(tmp_path, engine, SERVER)
    with pytest.raises(AtollError, match="sign in another folder"):
        sign_server_request(tmp_path, file)
    assert (tmp_path / "server" / "coordinator.key").is_file()
    assert not (tmp_path / "authority").exists()
    answer, *_ = sign_server_request(tmp_path / "kits", file)
    with pytest.raises(AtollError, match="in use already"):
        sign_server_request(tmp_path / "kits", file, renew="coordinator")
    install_server_answer(tmp_path, answer)
