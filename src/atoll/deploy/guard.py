"""Ends marked processes when the one who started them is gone, however it went.

Reads marks from standard input, a line each; when the other end closes, ends all that bear them.
"""

from __future__ import annotations

import signal
import sys

from atoll.deploy.families import end_families


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    end_families({line.strip() for line in sys.stdin if line.strip()}, grace=0.0)


if __name__ == "__main__":
    main()
