"""Why a site refuses, in its own words: kept in its state, for its own people.

The coordinator learns that it refuses and no more, since the words may speak of private data. In a
rehearsal on one machine its user is all of these people.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from atoll.errors import AtollError
from atoll.files import read_json, write_json

_FILE = "refusal.json"


def keep_refusal(state: Path, problem: AtollError) -> None:
    """The last one only."""
    write_json(state / _FILE, {"time": time.time(), "sentence": str(problem)})


def with_their_words(problem: str, states: Mapping[str, Path], since: float) -> str:
    """What stopped a run, and what the sites that refused since some time say of it."""
    said = []
    for site, state in states.items():
        try:
            found = read_json(state / _FILE)
            if found["time"] >= since:
                said.append(f"{site} says: {found['sentence']}")
        except (AtollError, KeyError, TypeError):
            continue
    return "\n  ".join([problem, *said])
