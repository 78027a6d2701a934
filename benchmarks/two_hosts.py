"""A Ray cluster of two nodes: the bytes of one process, also where a node is lost on the way.

    python benchmarks/two_hosts.py                 two nodes on loopback
    sudo python benchmarks/two_hosts.py --hosts    two hosts in network namespaces, joined by a link

A simulation is run in one process and on the cluster, and all files that have no seconds in them
are compared. Then again with every process of the second node killed in mid-run, and a comparison
whose runs are tasks; with --hosts the second host does not see the folder that the runs are kept
in, so that files have to be sent. Needs the ray extra; leaves nothing behind.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

_NET = "10.78.0"
_SPACES = ("atoll-ray-1", "atoll-ray-2")
_TIMED = ("rounds.parquet", "summary.json", "comparison.json", "runs.csv", "methods.csv")
_PORT = 6479


class Hosts:
    """Two network namespaces and one link between them."""

    def __enter__(self) -> Hosts:
        self.__exit__()
        for space in _SPACES:
            _ip("netns", "add", space)
        _ip("link", "add", "eth0", "netns", _SPACES[0], "type", "veth",
            "peer", "name", "eth0", "netns", _SPACES[1])  # fmt: skip
        for number, space in enumerate(_SPACES, 1):
            _ip("-n", space, "addr", "add", f"{_NET}.{number}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            _ip("-n", space, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_: object) -> None:
        for space in _SPACES:
            _ip("netns", "del", space, check=False)


def _ip(*arguments: str, check: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=check, capture_output=True)


class Cluster:
    """Two nodes started with ``ray start``, each with a folder and processes of its own."""

    def __init__(self, root: Path, hosts: bool) -> None:
        self.root, self.hosts = root, hosts
        self.nodes: list[subprocess.Popen[bytes]] = []
        self.addresses = [f"{_NET}.1", f"{_NET}.2"] if hosts else ["127.0.0.2", "127.0.0.3"]
        self.address = f"{self.addresses[0]}:{_PORT}"
        self.env = os.environ | {
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "OMP_WAIT_POLICY": "PASSIVE",
        }

    def at(self, number: int, command: list[str]) -> list[str]:
        """A command as a host runs it; the second one does not see where runs are kept."""
        if not self.hosts:
            return command
        inside = ["ip", "netns", "exec", _SPACES[number]]
        if number == 0:
            return [*inside, *command]
        hide = f'mount -t tmpfs none {self.root}/runs && exec "$@"'
        return [*inside, "unshare", "-m", "sh", "-c", hide, "sh", *command]

    def start(self, number: int) -> None:
        ip = self.addresses[number]
        folder = self.root / f"n{number}"
        which = (
            ["--head", f"--port={_PORT}", "--include-dashboard=false", f"--temp-dir={folder}"]
            if number == 0
            else [f"--address={self.address}"]
        )
        command = [_program("ray"), "start", *which, f"--node-ip-address={ip}", "--num-cpus=2",
                   "--object-store-memory=200000000", "--block"]  # fmt: skip
        with (self.root / f"node-{number}.log").open("ab") as log:
            self.nodes.append(
                subprocess.Popen(
                    self.at(number, command), env=self.env, stdout=log, stderr=log,
                    start_new_session=True,
                )
            )  # fmt: skip

    def alive(self) -> int:
        code = (
            f"import ray; ray.init(address='{self.address}', logging_level='ERROR');"
            "print(sum(n['Alive'] for n in ray.nodes()))"
        )
        done = subprocess.run(
            self.at(0, [sys.executable, "-c", code]), env=self.env, capture_output=True, text=True
        )
        return int(done.stdout.strip() or 0)

    def wait(self, count: int) -> None:
        for _ in range(60):
            if self.alive() == count:
                return
            time.sleep(1)
        raise SystemExit(f"there are never {count} nodes; see {self.root}/node-*.log")

    def end(self, number: int) -> None:
        """Everything of a node at once, as a power cut would."""
        top = psutil.Process(self.nodes[number].pid)
        for process in [*top.children(recursive=True), top]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        self.nodes[number].wait()

    def __enter__(self) -> Cluster:
        self.start(0)
        self.wait(1)
        self.start(1)
        self.wait(2)
        return self

    def __exit__(self, *_: object) -> None:
        for number in reversed(range(len(self.nodes))):
            with contextlib.suppress(psutil.NoSuchProcess):
                self.end(number)

    def atoll(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.at(0, [_program("atoll"), *arguments, "--json"]), env=self.env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.root,
        )  # fmt: skip


def _program(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def _done(process: subprocess.Popen[str], what: str) -> str:
    out, err = process.communicate(timeout=1200)
    if process.returncode:
        raise SystemExit(f"{what} failed: {err[-1500:]}")
    try:
        json.loads(out)
    except ValueError:
        raise SystemExit(f"{what} did not print JSON: {out[:1500]!r} {err[-500:]!r}") from None
    return err


def _contents(folder: Path) -> dict[str, bytes]:
    files = (p for p in folder.rglob("*") if p.is_file() and p.name not in _TIMED)
    return {str(p.relative_to(folder)): p.read_bytes() for p in files if not p.name.startswith(".")}


def _compare(one: Path, other: Path) -> bool:
    a, b = _contents(one), _contents(other)
    differ = sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))
    print(f"  {len(a)} files, {len(differ)} differ {differ[:3]}", flush=True)
    return not differ and bool(a)


Words = list[str]


def _simulation(cluster: Cluster, runs: Path, one: Words, _: Words, on: Words) -> bool:
    print("a simulation", flush=True)
    _done(cluster.atoll("run", *one, "--out", str(runs / "here")), "in one process")
    _done(cluster.atoll("run", *one, *on, "--out", str(runs / "there")), "on the cluster")
    return _compare(runs / "here", runs / "there")


def _comparison(cluster: Cluster, runs: Path, _: Words, many: Words, on: Words) -> bool:
    print("a comparison, its runs as tasks", flush=True)
    _done(cluster.atoll("compare", *many, "--out", str(runs / "c1")), "in one process")
    _done(cluster.atoll("compare", *many, *on, "--out", str(runs / "c2")), "on the cluster")
    return _compare(runs / "c1", runs / "c2")


def _loss(cluster: Cluster, runs: Path, one: Words, _: Words, on: Words) -> bool:
    print("a simulation that loses a node", flush=True)
    slow = [*one, "--rounds", "60", "--set", "run.checkpoint_seconds=0.5"]
    running = cluster.atoll("run", *slow, *on, "--out", str(runs / "lost"))
    while not list((runs / "lost" / "checkpoints").glob("round-*")):
        if running.poll() is not None:
            _done(running, "the run that loses a node")
            raise SystemExit("it was over before its node was lost; ask for more rounds")
        time.sleep(0.1)
    cluster.end(1)
    said = _done(running, "the run that loses a node")
    print("  " + " ".join(line for line in said.splitlines() if "goes on" in line), flush=True)
    _done(cluster.atoll("run", *slow, "--out", str(runs / "whole")), "in one process")
    return _compare(runs / "whole", runs / "lost")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", action="store_true", help="network namespaces; needs root")
    parser.add_argument("--method", default="fed-pub")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--only", choices=("simulation", "comparison", "loss"))
    given = parser.parse_args()
    settings = ["--data", "digits", "--set", "run.threads=1", "--chunk", "2", "--clients", "8"]
    one = ["--method", given.method, *settings, "--rounds", str(given.rounds)]
    many = ["--methods", "local,fed-avg", "--seeds", "2", *settings, "--rounds", "4"]
    with tempfile.TemporaryDirectory(prefix="a") as folder, contextlib.ExitStack() as stack:
        root = Path(folder)
        runs = root / "runs"
        runs.mkdir()
        if given.hosts:
            stack.enter_context(Hosts())
        cluster = stack.enter_context(Cluster(root, given.hosts))
        on = ["--engine", f"ray:{cluster.address}"]
        tries = {"simulation": _simulation, "comparison": _comparison, "loss": _loss}
        chosen = [given.only] if given.only else list(tries)
        good = [tries[name](cluster, runs, one, many, on) for name in chosen]
    print("all the same" if all(good) else "NOT the same")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
