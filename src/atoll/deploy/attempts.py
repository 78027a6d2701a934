"""Which requests of a run a site has taken: attempts only go up, and no request counts twice."""

from __future__ import annotations

import os
from pathlib import Path

from atoll.files import PRIVATE, write_text

_FILE = "requests.log"
# A coordinator counts one attempt more whenever it begins a round anew or is started again. One
# that leaps further would leave the true one behind for good.
LARGEST_LEAP = 10_000


class Stale(RuntimeError):
    """A request of an attempt that the coordinator has given up."""


class Leap(RuntimeError):
    """An attempt further ahead than any coordinator gets."""


class Repeated(RuntimeError):
    """A request that was taken before."""


class Attempts:
    """The highest attempt of a run and the ids of its requests, on disk before one is answered."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / _FILE
        self.attempt = 0
        self._taken: set[str] = set()
        if self._file.is_file():
            number, *ids = self._file.read_text().split("\n")
            self.attempt, self._taken = int(number), set(ids)

    def take(self, attempt: int, id: str) -> None:
        """Put a request on record; an error if it must not be answered, and nothing changes."""
        if attempt < self.attempt:
            raise Stale(f"attempt {attempt}, where {self.attempt} has begun")
        if attempt > self.attempt + LARGEST_LEAP:
            raise Leap(f"attempt {attempt} after {self.attempt}")
        if attempt == self.attempt and id in self._taken:
            raise Repeated(id)
        if attempt > self.attempt or not self._file.is_file():
            write_text(self._file, f"{attempt}\n", PRIVATE)
            self.attempt, self._taken = attempt, set()
        self._taken.add(id)
        opened = os.open(self._file, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(opened, f"{id}\n".encode())
            os.fsync(opened)
        finally:
            os.close(opened)
