"""A process and all that it has started: found by descent or by the session they share."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection

import psutil


def family(leaders: Collection[int]) -> list[psutil.Process]:
    """The processes that descend from session leaders or share their sessions."""
    found: dict[int, psutil.Process] = {}
    for leader in leaders:
        with contextlib.suppress(psutil.Error):
            parent = psutil.Process(leader)
            found |= {p.pid: p for p in [parent, *parent.children(recursive=True)]}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if os.getsid(process.pid) in leaders:
                found[process.pid] = process
    return list(found.values())


def end_families(leaders: Collection[int], grace: float) -> None:
    """Ask them to end and wait ``grace`` seconds; then make them."""
    members = family(leaders)
    if grace:
        for process in members:
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGTERM)
        psutil.wait_procs(members, timeout=grace)
        members = [*members, *family(leaders)]
    for process in members:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(members, timeout=10)
