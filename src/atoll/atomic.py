"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """A path to write to, which takes the target's name once the block ends without an error.

    Until then it lies beside the target under a hidden name of its own, so that neither an
    interruption nor a second process at the same work leaves a half-written target.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        yield part
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
