"""Engines as objects: found by name, usable one without the other."""

import subprocess
import sys

import pytest

from atoll.deploy.engines import engine_named, engines
from atoll.deploy.kits import make_kits
from atoll.errors import AtollError


def test_an_unknown_engine_is_one_sentence():
    with pytest.raises(AtollError, match="unknown engine 'flowers': did you mean 'flower'"):
        engine_named("flowers")


@pytest.mark.parametrize("name", ["nvflare", "flower"])
def test_an_engine_that_is_not_installed_says_how_to_get_it(name, monkeypatch):
    monkeypatch.setattr("atoll.deploy.engine.find_spec", lambda package: None)
    with pytest.raises(AtollError, match=rf"{name} is not installed; .*'atoll\[{name}\]'"):
        engine_named(name).require()


def test_engines_are_found_without_any_library_of_theirs():
    """So nobody needs Flower for FLARE, FLARE for Flower, or either to be told what to install."""
    program = """
import sys
for missing in ("nvflare", "flwr", "rbcl", "psutil"):
    sys.modules[missing] = None
from atoll.deploy.engines import engines
import atoll.deploy.coordinator, atoll.deploy.kits, atoll.deploy.service, atoll.deploy.up
print(*engines())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == list(engines()), done.stderr


def test_a_flower_server_named_after_its_own_machine_listens_there_alone(tmp_path):
    pytest.importorskip("flwr")
    engine = engine_named("flower")

    def listens_on(server, host=None):
        engine.make_kits(tmp_path / server, server, 8002, ["a"])
        command = engine.server(tmp_path / server / "server", host).command
        return command[command.index("--host") + 1]

    assert listens_on("localhost") == "127.0.0.1"
    assert listens_on("127.0.0.1") == "127.0.0.1"


def test_a_flower_server_is_refused_where_others_could_reach_it(tmp_path):
    """Who holds a site's CA file, or none at all, could start runs there, with code of theirs."""
    engine = engine_named("flower")
    pytest.importorskip(engine.package)
    for server in ("fl.example.org", "0.0.0.0", "192.0.2.1"):
        with pytest.raises(AtollError, match=f"can't serve '{server}', only this machine"):
            make_kits(tmp_path, engine, f"{server}:8002", ["a"])
    assert not list(tmp_path.iterdir())
    make_kits(tmp_path, engine, "localhost:8002", ["a"])
    with pytest.raises(AtollError, match="use --engine nvflare"):
        engine.server(tmp_path / "server", "0.0.0.0")
    kit = tmp_path / "server" / "kit.json"
    kit.write_text(kit.read_text().replace("localhost", "fl.example.org"))
    with pytest.raises(AtollError, match="use --engine nvflare"):
        engine.server(tmp_path / "server")


def test_a_flare_server_can_not_be_told_where_to_listen(tmp_path):
    with pytest.raises(AtollError, match="leave it out"):
        engine_named("nvflare").server(tmp_path, "0.0.0.0")
