"""Processes that belong to us: each in a session of its own, and all of them gone in the end."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from atoll.deploy.marks import MARK, end_marked
from atoll.errors import AtollError
from atoll.files import PRIVATE


class Process:
    """A program and whatever it starts itself; its output goes to a file."""

    def __init__(
        self, name: str, command: Sequence[str], env: Mapping[str, str], log: Path
    ) -> None:
        self.name = name
        self.log = log
        self.mark = secrets.token_hex(16)
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(log, "ab", opener=_for_its_owner) as out:
            self.popen = subprocess.Popen(
                command,
                env=dict(env) | {MARK: self.mark},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o077,  # what it writes is its user's alone
            )

    @property
    def alive(self) -> bool:
        return self.popen.poll() is None

    def kill(self) -> None:
        """End it and all it started at once, as a power cut would."""
        end_marked({self.mark}, grace=0.0)
        self.popen.wait(10)

    def last_words(self) -> str:
        """The end of its output."""
        try:
            lines = self.log.read_text(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1][-300:] if lines else ""


class ProcessGroup:
    """Processes that end together: on leaving, on an error, and when we ourselves are killed."""

    def __init__(self) -> None:
        self.members: dict[str, Process] = {}
        self._all: list[Process] = []

    def __enter__(self) -> ProcessGroup:
        self._guard = subprocess.Popen(
            python("-m", "atoll.deploy.guard"), stdin=subprocess.PIPE, start_new_session=True
        )
        return self

    def add(self, process: Process) -> Process:
        assert self._guard.stdin is not None
        self._guard.stdin.write(f"{process.mark}\n".encode())
        self._guard.stdin.flush()
        self._all.append(process)
        self.members[process.name] = process
        return process

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        end_marked({process.mark for process in self._all}, grace=3.0)
        for process in self._all:
            process.popen.wait(10)
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guard.wait(15)


def _for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE)


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


def tool(name: str) -> str:
    """A program that was installed beside this Python."""
    path = Path(sys.executable).with_name(name)
    if not path.is_file():
        raise AtollError(f"'{name}' is not installed beside Python; install the engine's extra.")
    return str(path)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for_port(port: int, seconds: float, process: Process, host: str = "127.0.0.1") -> None:
    """Until something listens there, or the process that should has ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with socket.socket() as attempt:
            attempt.settimeout(1)
            if attempt.connect_ex((host, port)) == 0:
                return
        if not process.alive:
            raise AtollError(
                f"{process.name} ended while starting ({process.last_words()}); see {process.log}"
            )
        time.sleep(0.2)
    raise AtollError(f"{process.name} did not listen within {seconds:g} s; see {process.log}")
