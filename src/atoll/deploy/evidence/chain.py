"""Records in a file, each with the hash of the one before: none can be changed, dropped or moved.

One line of JSON per record, ``hash = SHA-256(record with its number and the hash before)``. Lines
are only ever added. What a hash can't show is that the end is missing, or that everything was
written anew: signatures over the last hash do (:mod:`atoll.deploy.evidence.sealing`).
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atoll.deploy.evidence.signing import canonical
from atoll.errors import AtollError
from atoll.files import PRIVATE, make_folder

Record = dict[str, Any]
FILE = "evidence.jsonl"
START = "0" * 64


class Broken(AtollError):
    """A chain that is not as it was written."""


class Chain:
    """A chain that is added to. A line that a crash has torn is cut off; nothing else is mended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        make_folder(path.parent)
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, PRIVATE)
        with os.fdopen(opened, "rb+") as file:
            content = file.read()
            whole = content.rfind(b"\n") + 1
            file.truncate(whole)
        self.records = parsed(content[:whole], path)
        self.head = self.records[-1]["hash"] if self.records else START

    @property
    def count(self) -> int:
        return len(self.records)

    def append(self, durably: bool = True, **record: Any) -> Record:
        """Add a record; ``durably`` waits until it and all before it are on the disk."""
        with self._lock:
            numbered = record | {"n": self.count, "before": self.head}
            added = numbered | {"hash": _hash(numbered)}
            size = self.path.stat().st_size
            try:
                with self.path.open("ab") as file:
                    file.write(canonical(added).encode() + b"\n")
                    file.flush()
                    if durably:
                        os.fsync(file.fileno())
            except OSError:  # half a line would spoil those that follow it
                os.truncate(self.path, size)
                raise
            self.records.append(added)
            self.head = added["hash"]
            return added


def read_chain(path: Path) -> list[Record]:
    """The records of a file, every hash checked."""
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise Broken(f"there is no evidence at '{path}' ({problem.strerror}).") from problem
    if not content.endswith(b"\n"):
        raise Broken(f"the last record of '{path}' is torn.")
    return parsed(content, path)


def parsed(content: bytes, path: Path) -> list[Record]:
    records: list[Record] = []
    before = START
    for n, line in enumerate(content.split(b"\n")[:-1]):
        record = _record(line)
        # Written in the one way, so that not a byte can differ.
        if record is None or canonical(record).encode() != line:
            raise Broken(f"record {n} of '{path}' is damaged.")
        said = record.pop("hash", None)
        if record.get("n") != n or record.get("before") != before:
            raise Broken(f"record {n} of '{path}' does not follow the one before it.")
        if said != _hash(record):
            raise Broken(f"record {n} of '{path}' was changed: its hash is another.")
        before = said
        records.append(record | {"hash": said})
    return records


def _record(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _hash(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical(record).encode()).hexdigest()
