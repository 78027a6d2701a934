"""Durable files: they appear whole or not at all, and are still there after a power cut."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomli_w

from atoll.errors import AtollError

PRIVATE = 0o600  # for its owner alone


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
    write_text(path, json.dumps(value, indent=2) + "\n", mode)


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
