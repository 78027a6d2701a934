"""``atoll up`` that is interrupted or fails leaves no process, no port, no temporary folder."""

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest

from atoll.data.parties import write_parties
from small_federations import community_parties

ATOLL = [sys.executable, "-m", "atoll"]
# Flower needs minutes: ATOLL_TEST_INTERRUPT=nvflare,flower pytest tests/deploy/test_interrupt.py
ENGINES = os.environ.get("ATOLL_TEST_INTERRUPT", "nvflare").split(",")
BEARS = "ATOLL_TEST_FEDERATION"


@pytest.fixture
def ground(tmp_path):
    """A folder for one federation, and an environment by which its processes are known."""
    write_parties(community_parties((19, 25, 14)), tmp_path / "sites")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    env = os.environ | {BEARS: secrets.token_hex(8), "TMPDIR": str(temporary)}
    yield tmp_path, env
    for process in bearers(env):
        process.kill()


def bearers(env):
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(BEARS) == env[BEARS]:
                found.append(process)
    return found


def assert_nothing_left(tmp_path, env):
    until = time.monotonic() + 20  # the guard ends a moment after the command does
    while bearers(env) and time.monotonic() < until:
        time.sleep(0.2)
    assert not [p.cmdline() for p in bearers(env)]
    assert not list((tmp_path / "tmp").iterdir())
    with socket.socket() as attempt:
        assert attempt.connect_ex(("127.0.0.1", port(tmp_path))) != 0


def port(tmp_path):
    kit = tmp_path / "run" / "federation" / "kits" / "server"
    if (kit / "kit.json").is_file():
        return json.loads((kit / "kit.json").read_text())["port"]
    server = json.loads((kit / "startup" / "fed_server.json").read_text())
    return int(server["servers"][0]["service"]["target"].rpartition(":")[2])


def started(tmp_path, env, *command):
    return subprocess.Popen(
        [*ATOLL, *command], cwd=tmp_path, env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def wait_until(met, seconds, process):
    until = time.monotonic() + seconds
    while not met():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < until, "it takes too long"
        time.sleep(0.1)


def rounds_done(tmp_path):
    with contextlib.suppress(OSError, ValueError):
        return json.loads((tmp_path / "run" / "status.json").read_text())["round"]
    return 0


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
def test_ctrl_c_lets_the_round_finish_and_leaves_nothing(engine, ground):
    pytest.importorskip({"nvflare": "nvflare", "flower": "flwr"}[engine])
    tmp_path, env = ground
    run = ("up", "--sites", "sites", "--engine", engine, "--method", "fed-avg", "--out", "run")
    process = started(tmp_path, env, *run, "--rounds", "5000", "--set", "run.threads=1")
    wait_until(lambda: rounds_done(tmp_path) >= 1, 600, process)
    assert len(bearers(env)) > 4
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=90)
    assert process.returncode == 130, said
    assert f"continue with: atoll resume {tmp_path / 'run'}" in said
    assert_nothing_left(tmp_path, env)
    # A failure in the midst of starting, when the server is up already.
    kit = sorted((tmp_path / "run" / "federation" / "kits").glob("site-*"))[-1]
    (kit / ("kit.json" if engine == "flower" else "startup/fed_client.json")).unlink()
    process = started(tmp_path, env, "resume", "run")
    _, said = process.communicate(timeout=200)
    assert process.returncode == 2, said
    assert "make one with: atoll keys" in said
    assert_nothing_left(tmp_path, env)
