"""What processes started by an engine must know, in their environment: paths, and no secrets."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from atoll.errors import AtollError
from atoll.files import clear_leftovers, hold_until_the_end

if TYPE_CHECKING:
    from atoll.deploy.door import Door
    from atoll.deploy.voice import Voice

RUNS, DATA, STATE, SLOW = "ATOLL_RUNS", "ATOLL_SITE_DATA", "ATOLL_SITE_STATE", "ATOLL_SITE_SLOW"
ADMITS, KIT, SERVER_KIT = "ATOLL_SITE_ADMITS", "ATOLL_SITE_KIT", "ATOLL_SERVER_KIT"
FEWEST, LARGEST = "ATOLL_SITE_FEWEST_SHARED", "ATOLL_SITE_LARGEST_LIST"
POLICY = "ATOLL_SITE_POLICY"
# Held by the one process that answers for a site; its folder of states itself by `atoll client`.
_AT_WORK, _SECONDS_TO_END = ".at-work", 60.0


def site_environment(
    data: Path, state: Path, kit: Path, admits: Sequence[str] = (), policy: Path | None = None
) -> dict[str, str]:
    """Where a site finds its data, its keys, its policy and its state, and which plug-ins it
    admits; never sent to anybody."""
    places = {DATA: data, STATE: state, KIT: kit} | ({POLICY: policy} if policy else {})
    found = {name: str(place.resolve()) for name, place in places.items()}
    return {POLICY: ""} | found | {ADMITS: json.dumps(admits)}


def site_from_environment() -> Door:
    """The site of this process, behind its door."""
    from atoll.deploy.door import Door
    from atoll.deploy.identity import identity_of
    from atoll.deploy.matching import Limits
    from atoll.deploy.policy.default import policy_at
    from atoll.deploy.site import Site

    for name in (DATA, STATE, KIT):
        if not os.environ.get(name):
            raise AtollError(f"{name} is not set; start the site with: atoll client")
    slow = float(os.environ.get(SLOW, "0"))
    admits = json.loads(os.environ.get(ADMITS, "[]"))
    state = Path(os.environ[STATE])
    # The process of the job before may still be at its last step.
    hold_until_the_end(state / _AT_WORK, _SECONDS_TO_END)
    clear_leftovers(state)
    identity = identity_of(Path(os.environ[KIT]), state)
    given = Limits()
    limits = Limits(
        int(os.environ.get(FEWEST, given.fewest_shared)),
        int(os.environ.get(LARGEST, given.largest_list)),
    )
    policy = policy_at(Path(path) if (path := os.environ.get(POLICY)) else None)
    site = Site(Path(os.environ[DATA]), state, slow, admits, identity, limits, policy)
    return Door(identity, state, site.handle)


def voice_from_environment() -> Voice:
    """The voice of this process's coordinator."""
    from atoll.deploy.keyring import ROSTER
    from atoll.deploy.voice import voice_of

    if not os.environ.get(SERVER_KIT):
        raise AtollError(f"{SERVER_KIT} is not set; start the server with: atoll server")
    runs = Path(os.environ.get(RUNS, "runs"))
    # A rehearsal on one machine has a new authority each time, and leaves nothing beside its runs.
    lasting = (runs / ROSTER).is_file()
    return voice_of(Path(os.environ[SERVER_KIT]), runs if lasting else None)


def quiet_environment() -> dict[str, str]:
    """The environment for engines' processes: polite threads, output at once, and nothing
    importable that merely lies in the working directory."""
    return os.environ | {
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE"),
        "PYTHONUNBUFFERED": "1",
        "PYTHONSAFEPATH": "1",
    }
