"""A site under Flower: the site itself, and the SuperNode that brings it its messages.

python -m atoll.deploy.flower.supernode COMMAND OF THE SUPERNODE
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Thread
from typing import IO

from atoll.deploy.flower.pipe import serve
from atoll.deploy.flower.programs import SOCKET
from atoll.deploy.settings import site_from_environment

# Flower refuses a SuperNode that it takes for online: one that was killed, for a minute after.
_REFUSAL = b"Failed to activate SuperNode"
_BETWEEN_TRIES, _SECONDS_TO_TRY = 5.0, 180.0


def main(command: list[str]) -> int:
    # In the kit, which is its owner's alone: a temporary folder would outlive a killed site.
    path = Path(os.environ["FLWR_HOME"]) / "site"
    serve(path, site_from_environment().handle)
    try:
        return keep_trying(command, os.environ | {SOCKET: str(path)})
    finally:
        path.unlink(missing_ok=True)


def keep_trying(command: list[str], env: dict[str, str]) -> int:
    """Run the SuperNode; if it is refused because its last life is not forgotten yet, again."""
    ending = Event()
    until = time.monotonic() + _SECONDS_TO_TRY
    while True:
        process = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

        def end(*_: object, process: subprocess.Popen[bytes] = process) -> None:
            ending.set()
            process.terminate()

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, end)
        refused = Event()
        assert process.stdout is not None
        reader = Thread(target=_pass_on, args=(process.stdout, refused), daemon=True)
        reader.start()
        code = process.wait()
        # What the SuperNode has started may hold its output open.
        reader.join(1.0)
        if not refused.is_set() or ending.wait(_BETWEEN_TRIES) or time.monotonic() > until:
            return code


def _pass_on(said: IO[bytes], refused: Event) -> None:
    with said:
        for line in said:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            if _REFUSAL in line:
                refused.set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
