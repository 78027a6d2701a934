"""A site under Flower: the site itself, and the SuperNode that brings it its messages.

python -m atoll.deploy.flower_node COMMAND OF THE SUPERNODE
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from atoll.deploy.pipe import serve
from atoll.deploy.settings import SOCKET, site_from_environment


def main(command: list[str]) -> int:
    # In the kit, which is its owner's alone: a temporary folder would outlive a killed node.
    path = Path(os.environ["FLWR_HOME"]) / "site"
    serve(path, site_from_environment().handle)
    node = subprocess.Popen(command, env=os.environ | {SOCKET: str(path)})
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: node.terminate())
    try:
        return node.wait()
    finally:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
