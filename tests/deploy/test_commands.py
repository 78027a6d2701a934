"""The commands of a federation across machines, here all on one: keys, server, client, submit."""

import json
import signal
import subprocess
import sys
import time

import pytest

from atoll.data.parties import write_parties
from atoll.deploy.processes import free_port
from small_federations import community_parties

ATOLL = [sys.executable, "-m", "atoll"]


def atoll(*arguments, cwd, seconds=120):
    return subprocess.run(
        [*ATOLL, *arguments], cwd=cwd, capture_output=True, text=True, timeout=seconds, check=False
    )


def test_a_federation_by_its_commands(tmp_path):
    pytest.importorskip("nvflare")
    write_parties(community_parties((19, 25, 14)), tmp_path / "data")
    port = free_port()
    made = atoll("keys", "--sites", "a,b,c", "--server", f"localhost:{port}", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    folders = sorted((tmp_path / "data").iterdir())
    for name in "abc":  # the built-in policy asks for more nodes than these parties have
        rules = "[data]\nnodes = 10\nlabelled = 1\n"
        (tmp_path / "kits" / f"site-{name}" / "policy.toml").write_text(rules)
    commands = [["server"]]
    commands += [
        ["client", "--data", str(folder), "--kit", f"kits/site-{name}"]
        for name, folder in zip("abc", folders, strict=True)
    ]
    running = []
    for command in commands:
        with (tmp_path / f"{command[-1].replace('/', '-')}.log").open("wb") as log:
            running.append(
                subprocess.Popen(
                    [*ATOLL, *command], cwd=tmp_path, stdout=log, stderr=subprocess.STDOUT
                )
            )
    try:
        done = atoll(
            *("submit", "--method", "fed-avg", "--rounds", "3", "--deadline", "60", "--json"),
            *("--set", "model.hidden=8", "--set", "run.threads=1"),
            cwd=tmp_path,
            seconds=240,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["rounds"] == 3
        [told] = json.loads(atoll("status", "--json", cwd=tmp_path).stdout)
        assert (told["state"], told["round"], len(told["present"])) == ("complete", 3, 3)
        states = [("--site", f"kits/site-{name}/state") for name in "abc"]
        sites = [part for pair in states for part in pair]
        audit = atoll("audit", f"runs/{told['run']}", *sites, "--json", cwd=tmp_path)
        evidence = json.loads(audit.stdout)["evidence"]
        assert (audit.returncode, evidence["problems"]) == (0, [])
        assert sorted(evidence["compared"]) == ["a", "b", "c"]
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
        until = time.monotonic() + 30
        for process in running:
            process.wait(max(until - time.monotonic(), 0.1))
