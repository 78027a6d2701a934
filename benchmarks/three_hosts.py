"""Hosts in network namespaces: a server and three sites, one of them cut off and back again.

    sudo python benchmarks/three_hosts.py [--method fed-pub] [--rounds 60]

Each host has an address of its own on a bridge; sites dial out to the server and nothing listens at
them. In mid-run one site's link goes down until it is missed, then up again; the run must complete,
with all three sites in its last round. Needs root and the nvflare extra; leaves nothing behind.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from atoll.data.parties import party_folders, write_parties
from atoll.deploy.engines import engine_named
from atoll.deploy.kits import make_kits
from atoll.deploy.marks import MARK, end_marked
from atoll.deploy.settings import SLOW, quiet_environment
from atoll.experiment.config import resolve
from atoll.experiment.runner import load_parties
from atoll.parquet import read_parquet

_NET, _BRIDGE, _PORT, _SERVER = "10.77.0", "atollbr0", 8002, "atoll-server"
_SITES = ("north", "south", "west")


class Hosts:
    """Namespaces joined by a bridge."""

    def __enter__(self) -> Hosts:
        self.__exit__()
        _ip("link", "add", _BRIDGE, "type", "bridge")
        _ip("link", "set", _BRIDGE, "up")
        for number, name in enumerate(("server", *_SITES), 1):
            space, outer = f"atoll-{name}", f"at{name}"
            _ip("netns", "add", space)
            _ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", outer, "master", _BRIDGE, "up")
            for command in (
                ("addr", "add", f"{_NET}.{number}/24", "dev", "eth0"),
                ("link", "set", "eth0", "up"),
                ("link", "set", "lo", "up"),
            ):
                _ip("-n", space, *command)
            hosts = Path("/etc/netns") / space / "hosts"
            hosts.parent.mkdir(parents=True, exist_ok=True)
            hosts.write_text(f"127.0.0.1 localhost\n{_NET}.1 {_SERVER}\n")
        return self

    def __exit__(self, *_: object) -> None:
        for name in ("server", *_SITES):
            _ip("netns", "del", f"atoll-{name}", check=False)
            _ip("link", "del", f"at{name}", check=False)
            hosts = Path("/etc/netns") / f"atoll-{name}"
            with contextlib.suppress(OSError):
                (hosts / "hosts").unlink()
                hosts.rmdir()
        _ip("link", "del", _BRIDGE, check=False)

    def cut(self, site: str) -> None:
        _ip("link", "set", f"at{site}", "down")

    def join(self, site: str) -> None:
        _ip("link", "set", f"at{site}", "up")


def _ip(*arguments: str, check: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=check, capture_output=True)


def _at(host: str, *command: str) -> list[str]:
    return ["ip", "netns", "exec", f"atoll-{host}", sys.executable, "-m", "atoll", *command]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--method", default="fed-pub")
    parser.add_argument("--rounds", type=int, default=60)
    given = parser.parse_args()
    mark = f"three-hosts-{os.getpid()}"
    env = quiet_environment() | {MARK: mark, SLOW: "0.4"}
    with tempfile.TemporaryDirectory() as folder, Hosts() as hosts:
        root = Path(folder)
        cut = {"data": {"name": "digits"}, "partition": {"name": "louvain", "clients": 3}}
        write_parties(load_parties(resolve(cut | {"method": {"name": "local"}})).graphs, root / "d")
        make_kits(root / "kits", engine_named("nvflare"), f"{_SERVER}:{_PORT}", _SITES)
        commands = {"server": ["server", "--kits", str(root / "kits"), "--runs", str(root / "r")]}
        for site, data in zip(_SITES, party_folders(str(root / "d")), strict=True):
            kit = str(root / "kits" / f"site-{site}")
            commands[site] = ["client", "--data", str(data), "--kit", kit]
        try:
            for host, command in commands.items():
                with (root / f"{host}.log").open("wb") as log:
                    subprocess.Popen(_at(host, *command), env=env, stdout=log, stderr=log)
            submit = [
                "submit",
                "--no-wait",
                "--runs",
                str(root / "r"),
                "--kits",
                str(root / "kits"),
            ]
            terms = ["--deadline", "5", "--patience", "120", "--method", given.method]
            settings = ["--rounds", str(given.rounds), "--set", "run.threads=1"]
            done = subprocess.run(
                [sys.executable, "-m", "atoll", *submit, *terms, *settings],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            return _drill(Path(done.stdout.strip()), hosts)
        finally:
            end_marked({mark}, grace=3.0)


def _drill(run_dir: Path, hosts: Hosts) -> int:
    site = _SITES[0]
    _wait(run_dir, 180, "begins", lambda s: s["round"] >= 3)
    hosts.cut(site)
    _wait(run_dir, 120, f"goes on without {site}", lambda s: site in s["missing"])
    alone = _status(run_dir)["round"]
    _wait(run_dir, 120, "makes progress", lambda s: s["round"] >= alone + 3)
    hosts.join(site)
    _wait(run_dir, 180, f"has {site} back", lambda s: s["round"] and site in s["present"])
    _wait(run_dir, 240, "completes", lambda s: s["state"] == "complete")
    history = read_parquet(run_dir / "history.parquet")
    sizes = [n for _, n in sorted(history.group_by("round").len().iter_rows())]
    print(f"sites per round: {sizes}")
    return 0 if sizes[0] == 3 and 2 in sizes and sizes[-1] == 3 else 1


def _status(run_dir: Path) -> dict:
    with contextlib.suppress(OSError, ValueError):
        return json.loads((run_dir / "status.json").read_text())
    return {"round": 0, "missing": {}, "present": [], "state": "waiting"}


def _wait(run_dir: Path, seconds: float, what: str, met) -> None:
    started = time.monotonic()
    while not met(_status(run_dir)):
        if time.monotonic() - started > seconds:
            logs = run_dir.parents[1]
            for log in sorted(logs.glob("*.log")):
                print(f"== {log.name}: {log.read_text(errors='replace')[-500:]}", file=sys.stderr)
            raise SystemExit(f"the run never {what}: {_status(run_dir)}")
        time.sleep(0.3)
    print(f"{what} after {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
