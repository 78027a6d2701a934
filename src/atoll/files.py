"""Durable files: they appear whole or not at all, and are still there after a power cut."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomli_w

from atoll.errors import AtollError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PRIVATE = 0o600  # for its owner alone
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_PART = re.compile(r"\..*\.(\d+)-[0-9a-f]{8}\.part")  # of which process
_LONGEST_NAME = 80


def folder_names(names: Iterable[str]) -> list[str]:
    """Names of parties as folders on any system, each different."""
    found: list[str] = []
    taken: set[str] = set()
    for given in names:
        plain = re.sub(r"[^\w.-]+", "-", given)[:_LONGEST_NAME].strip("-.") or "party"
        name, number = plain, 1
        while name.lower() in taken:
            number += 1
            name = f"{plain}-{number}"
        taken.add(name.lower())
        found.append(name)
    return found


class NoRoom(AtollError, OSError):
    """The disk is full. Still an OSError, for those who have a sentence of their own for it."""

    def __init__(self, target: Path, problem: OSError) -> None:
        super().__init__(
            f"there is no room for '{target}' ({problem.strerror}); what was there before is as it "
            f"was: make room, and do it again or continue it with: atoll resume"
        )
        self.errno, self.strerror = problem.errno, problem.strerror

    def __str__(self) -> str:
        return str(self.args[0])


def is_no_room(problem: BaseException) -> bool:
    """Whether something failed because the disk is full, or a quota spent."""
    return isinstance(problem, OSError) and problem.errno in _NO_ROOM


@contextmanager
def written_whole(target: Path, mode: int | None = None) -> Iterator[Path]:
    """A path to write to, which takes the target's name once the block ends without an error.

    Until then it lies beside the target under a hidden name of its own, so that neither an
    interruption nor a second process at the same work leaves a half-written target. Its content is
    on the disk before it takes the name, and the name before the block is left. With ``mode`` the
    file is there, empty and with that mode, before anything is written to it.
    """
    make_folder(target.parent)
    part = _hidden_beside(target)
    try:
        if mode is not None:
            os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        yield part
        _sync(part)
        part.replace(target)
        _sync(target.parent)
    except OSError as problem:
        if is_no_room(problem):
            raise NoRoom(target, problem) from problem
        raise
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def folder_whole(target: Path) -> Iterator[Path]:
    """A new folder, its owner's alone, which takes its name once it is filled without an error."""
    make_folder(target.parent)
    part = _hidden_beside(target)
    part.mkdir(mode=0o700)
    try:
        yield part
        for inside in (part, *part.rglob("*")):
            _sync(inside)
        part.rename(target)
        _sync(target.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def for_its_owner() -> Iterator[None]:
    """Whatever is made meanwhile, by whomever, is its owner's alone from its first byte on."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def refuse_shared_secret(path: Path) -> None:
    """Refuse a secret that others on this machine can read, as after a copy by way of a stick."""
    if os.name != "nt" and path.stat().st_mode & 0o077:
        raise AtollError(f"'{path}' can be read by others; set its mode to 600.")


def refuse_written_by_all(path: Path) -> None:
    """Refuse a file that says what may be done here if everybody on this machine can change it."""
    if os.name == "nt":
        return
    file = path.resolve()
    for place in (file, file.parent):
        mode = place.stat().st_mode
        # In a folder like /tmp nobody can rename or remove what is another's.
        if mode & stat.S_IWOTH and not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
            raise AtollError(
                f"everybody on this machine can write to '{place}', and so decide what '{path}' "
                f"says; take that right away: chmod o-w {place}"
            )


@contextmanager
def held(folder: Path, seconds: float = 0.0) -> Iterator[None]:
    """A folder that no other process works in meanwhile; an error if one does.

    ``seconds`` is how long to wait for the other to end. The operating system lets go of the folder
    when its holder ends, however that happens.
    """
    make_folder(folder)
    if fcntl is None:  # no such locks on this system
        yield
        return
    until = time.monotonic() + seconds
    opened = os.open(folder, os.O_RDONLY)
    try:
        while not _locked(opened):
            if time.monotonic() >= until:
                raise AtollError(
                    f"another process is at work in '{folder}'; wait for it, or end it first."
                )
            time.sleep(0.1)
        yield
    finally:
        os.close(opened)


def hold_until_the_end(folder: Path, seconds: float = 0.0) -> None:
    """As :func:`held`, for as long as this process lives."""
    holding = held(folder, seconds)
    holding.__enter__()
    _HELD.append(holding)


_HELD: list[Any] = []


def clear_leftovers(folder: Path) -> None:
    """Remove what processes that were killed had not finished writing, in all of a folder."""
    for part in folder.rglob(".*.part"):
        named = _PART.fullmatch(part.name)
        if named is None or _is_alive(int(named[1])):
            continue
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it is another user's
        return True
    return True


def _locked(opened: int) -> bool:
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def make_folder(folder: Path) -> None:
    """A folder and those above it, each new one entered durably into the one that holds it."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync(folder.parent)


def write_bytes(path: Path, content: bytes, mode: int | None = None) -> None:
    """All of the content or none of it: a reader never finds half a file."""
    with written_whole(path, mode) as part:
        part.write_bytes(content)


def write_text(path: Path, content: str, mode: int | None = None) -> None:
    write_bytes(path, content.encode(), mode)


def write_json(path: Path, value: Any, mode: int | None = None) -> None:
    # Piece by piece: the text of many clients in one is many times what they are.
    with written_whole(path, mode) as part, part.open("w", encoding="ascii", newline="\n") as file:
        json.dump(value, file, indent=2)
        file.write("\n")


def read_json(path: Path) -> Any:
    """A file of ours; one that is torn or altered is an error."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as problem:
        raise damaged(path, problem) from problem


def write_toml(path: Path, table: Mapping[str, Any], mode: int | None = None) -> None:
    write_text(path, tomli_w.dumps(table), mode)


def damaged(path: Path, problem: object) -> AtollError:
    """The error for a file of ours that does not hold what was written to it."""
    first = str(problem).strip().split("\n")[0]
    return AtollError(
        f"a file is damaged: '{path}' can't be read ({first}); restore it, or start anew without "
        f"it."
    )


def _hidden_beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.part")


def _sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk."""
    if os.name == "nt" and path.is_dir():  # Windows keeps a folder's list of names by itself
        return
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
