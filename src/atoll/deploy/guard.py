"""Ends registered processes when the one who started them is gone, however it went.

Reads process ids from standard input, a line each; when the other end closes, ends them and all
that belongs to them.
"""

from __future__ import annotations

import signal
import sys

from atoll.deploy.families import end_families


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    end_families({int(line) for line in sys.stdin if line.strip().isdecimal()}, grace=0.0)


if __name__ == "__main__":
    main()
