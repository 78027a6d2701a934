"""Engines as objects: found by name, usable one without the other."""

import subprocess
import sys
from itertools import pairwise

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


def test_a_flower_server_takes_orders_on_loopback_alone(tmp_path):
    """Sites dial the outer listener; the SuperLink's own, with its control interface, is inside."""
    pytest.importorskip("flwr")
    engine = engine_named("flower")

    def listens_on(server, host=None):
        engine.make_kits(tmp_path / server, server, 8002, ["a"])
        command = engine.server(tmp_path / server / "server", host).command
        inner = dict(pairwise(command))
        outer = command[command.index("atoll.deploy.flower.superlink") + 1 :][:2]
        assert inner["--host"] == "127.0.0.1"
        assert inner["--port"] != outer[1] == "8002"
        return outer[0]

    assert listens_on("localhost") == "127.0.0.1"
    assert listens_on("127.0.0.1") == "127.0.0.1"
    assert listens_on("fl.example.org") == "0.0.0.0"
    assert listens_on("fl2.example.org", "192.0.2.1") == "192.0.2.1"


def test_a_flower_server_stays_here_where_users_can_not_be_told_apart(tmp_path, monkeypatch):
    pytest.importorskip("flwr")
    engine = engine_named("flower")
    make_kits(tmp_path, engine, "fl.example.org:8002", ["a"])
    monkeypatch.setattr("atoll.deploy.flower.engine.can_tell_users", lambda: False)
    with pytest.raises(AtollError, match="use --engine nvflare"):
        engine.server(tmp_path / "server")
    assert engine.server(tmp_path / "server", "127.0.0.1")


def test_a_flare_server_can_not_be_told_where_to_listen(tmp_path):
    with pytest.raises(AtollError, match="leave it out"):
        engine_named("nvflare").server(tmp_path, "0.0.0.0")
