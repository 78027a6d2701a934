"""A process and all that descend from it, known by a mark in their environment.

Engines start their jobs as leaders of new sessions, and the children of a killed process belong to
nobody; the mark stays.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

MARK = "ATOLL_PROCESS_MARK"


def marked(marks: Collection[str]) -> list[psutil.Process]:
    """The processes that bear one of the marks."""
    import psutil

    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) in marks:
                found.append(process)
    return found


def end_marked(marks: Collection[str], grace: float) -> None:
    """Ask them to end and wait ``grace`` seconds; then make them, until none is left."""
    import psutil

    if grace:
        members = marked(marks)
        for process in members:
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGTERM)
        psutil.wait_procs(members, timeout=grace)
    for _ in range(10):
        members = marked(marks)
        if not members:
            return
        for process in members:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(members, timeout=5)
