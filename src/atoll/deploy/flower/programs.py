"""The environment that Flower's programs are run in."""

from __future__ import annotations

import os
from pathlib import Path

from atoll.deploy.flower.own_app import put_in_place
from atoll.deploy.processes import tool
from atoll.deploy.settings import quiet_environment

# Where the site listens to its SuperNode's processes.
SOCKET = "ATOLL_SITE_SOCKET"


def flower_environment(kit: Path) -> dict[str, str]:
    """No telemetry, no look for updates; Flower's own folder lies in the kit, not in the home."""
    folder = kit / "flower"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Flower runs its own programs by name.
    path = f"{Path(tool('flower-superlink')).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return quiet_environment() | {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_HOME": str(folder.resolve()),
        "PATH": path,
    }


def site_environment(kit: Path) -> dict[str, str]:
    """The same for a site, where no app that comes with a run is ever run."""
    env = flower_environment(kit)
    own = put_in_place(Path(env["FLWR_HOME"]) / "programs")
    return env | {"PATH": f"{own}{os.pathsep}{env['PATH']}"}
