"""Where compiled kernels are kept from one process to the next."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HERE = Path(__file__).parent


@contextmanager
def compiled_beside() -> Iterator[None]:
    """Kernels that are imported within are kept beside their sources, like Python's own bytecode.

    Under a name made from all sources of this package: numba looks at one file only, and kernels
    of one are compiled into those of another. Where the folder can't be written, or the user has
    set ``NUMBA_CACHE_DIR``, it is numba's own choice.
    """
    from numba import config

    before, kept = config.CACHE_DIR, _HERE / "__pycache__"
    if before or not os.access(kept if kept.exists() else _HERE, os.W_OK):
        yield
        return
    sources = b"".join(path.read_bytes() for path in sorted(_HERE.glob("*.py")))
    config.CACHE_DIR = str(kept / hashlib.sha256(sources).hexdigest()[:16])
    try:
        yield
    finally:
        config.CACHE_DIR = before
