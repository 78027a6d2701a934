"""The environment that Flower's programs are run in."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from atoll.deploy.processes import tool
from atoll.deploy.settings import quiet_environment
from atoll.files import write_text

# Where the site listens to its SuperNode's processes.
SOCKET = "ATOLL_SITE_SOCKET"
_CLIENT = "flwr-clientapp"
_OTHERS = ("flwr-agentapp", "flwr-connector", "flwr-model", "flwr-serverapp", "flwr-simulation")
_OWN = "#!{python}\nfrom atoll.deploy.flower.own_app import main\n\nmain()\n"
_NONE = "#!{python}\nimport sys\n\nsys.exit('a site runs no such program')\n"


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


def put_in_place(folder: Path) -> Path:
    """Programs that Flower's processes at a site find by name before Flower's own: one that runs
    Atoll's app, and for other tasks than messages some that do nothing."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for name in (_CLIENT, *_OTHERS):
        text = (_OWN if name == _CLIENT else _NONE).format(python=sys.executable)
        write_text(folder / name, text, stat.S_IRWXU)
    return folder


def site_environment(kit: Path) -> dict[str, str]:
    """The same for a site, where no app that comes with a run is ever run."""
    env = flower_environment(kit)
    own = put_in_place(Path(env["FLWR_HOME"]) / "programs")
    return env | {"PATH": f"{own}{os.pathsep}{env['PATH']}"}
