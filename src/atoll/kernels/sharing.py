"""One kernel's work shared among threads, where there is enough of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial

import torch

# Operations from which on handing work to other threads takes little beside the work itself:
# about three milliseconds.
ENOUGH = 800_000_000
# Parts per thread: where another process has one of the cores, others take over.
_PARTS = 4
_allowed: ContextVar[int] = ContextVar("threads to share work among; 0 is torch's own", default=0)


def share(kernel: Callable[[int, int], None], count: int, work: float) -> None:
    """Call ``kernel(first, last)`` so that all of ``count`` rows, clients or entries are served.

    Every one is served alone, so that results do not depend on who does it. ``work`` is about how
    many operations that is. Only as many threads as torch may use take part, or as
    :func:`shared_among` says, and only where the work is large: for less, waking one costs more
    than it does.
    """
    threads = _allowed.get() or torch.get_num_threads()
    if threads == 1 or work < ENOUGH or count < 2:
        kernel(0, count)
        return
    parts = min(count, threads * _PARTS)
    edges = [count * i // parts for i in range(parts + 1)]
    list(_pool(threads).map(kernel, edges[:-1], edges[1:]))


@contextmanager
def shared_among(threads: int) -> Iterator[None]:
    """So many threads for a while, however many torch uses within its own operations."""
    token = _allowed.set(threads)
    try:
        yield
    finally:
        _allowed.reset(token)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    # Torch's own operations within a part are not shared a second time.
    one = partial(torch.set_num_threads, 1)
    return ThreadPoolExecutor(threads, thread_name_prefix="atoll-kernels", initializer=one)
