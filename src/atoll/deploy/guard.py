"""Ends marked processes when the one who started them is gone, however it went.

Reads marks from standard input, one per line; when the other end closes, ends all that bear them.
"""

from __future__ import annotations

import signal
import sys

from atoll.deploy.marks import end_marked


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    end_marked({line.strip() for line in sys.stdin if line.strip()}, grace=0.0)


if __name__ == "__main__":
    main()
