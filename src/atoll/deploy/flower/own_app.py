"""The program in the place of ``flwr-clientapp`` at a site: it runs Atoll's app, and no other.

Flower hands a site, with every run, an app to install and to run. Here that is left unread: what is
run is what is installed at the site.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from atoll.errors import AtollError


def main() -> None:
    from flwr.supernode.cli import flwr_clientapp
    from flwr.supernode.runtime import run_clientapp as runtime

    from atoll.deploy.flower.client_app import client

    # Each of them would read the app that came with the run.
    instead: dict[str, Any] = {
        "install_from_fab": lambda *_, **__: None,
        "install_app_dependencies": lambda *_, **__: None,
        "get_project_dir": lambda *_, **__: Path(),
        "get_load_client_app_fn": lambda *_, **__: lambda *_: client,
    }
    for name, function in instead.items():
        if not hasattr(runtime, name):
            raise AtollError(f"this version of Flower has no '{name}'; install flwr 1.41.")
        setattr(runtime, name, function)
    flwr_clientapp()
