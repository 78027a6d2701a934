"""What processes started by an engine must know, in their environment: paths, and no secrets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from atoll.errors import AtollError

if TYPE_CHECKING:
    from atoll.deploy.site import Site

RUNS, DATA, STATE, SLOW = "ATOLL_RUNS", "ATOLL_SITE_DATA", "ATOLL_SITE_STATE", "ATOLL_SITE_SLOW"


def site_environment(data: Path, state: Path) -> dict[str, str]:
    """Where a site finds its data and keeps its state; never sent to anybody."""
    return {DATA: str(data.resolve()), STATE: str(state.resolve())}


def site_from_environment() -> Site:
    from atoll.deploy.site import Site

    for name in (DATA, STATE):
        if not os.environ.get(name):
            raise AtollError(f"{name} is not set; start the site with: atoll client")
    slow = float(os.environ.get(SLOW, "0"))
    return Site(Path(os.environ[DATA]), Path(os.environ[STATE]), slow)


def quiet_environment() -> dict[str, str]:
    """The environment for engines' processes: polite threads, output at once."""
    return os.environ | {
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE"),
        "PYTHONUNBUFFERED": "1",
    }
