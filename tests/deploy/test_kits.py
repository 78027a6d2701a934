"""What each side of a federation is given."""

import pytest

from atoll.deploy.engines import engine_named
from atoll.deploy.kits import engine_of, make_kits, sites_of
from atoll.errors import AtollError


@pytest.mark.parametrize(
    ("server", "sites", "sentence"),
    [
        ("localhost", ["a"], "HOST:PORT"),
        ("localhost:99999", ["a"], "HOST:PORT"),
        ("localhost:8002", ["a b"], "can't be a site's name"),
        ("localhost:8002", ["../x"], "can't be a site's name"),
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


def test_secrets_are_readable_by_their_owner_alone(tmp_path):
    pytest.importorskip("nvflare")
    for engine in ("nvflare", "flower"):
        make_kits(tmp_path / engine, engine_named(engine), "localhost:8002", ["a"])
        keys = [p for p in (tmp_path / engine).rglob("*.key") if "authority" not in p.parts]
        assert keys
        assert all(key.stat().st_mode & 0o077 == 0 for key in keys)


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
