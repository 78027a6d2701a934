"""One kernel's work shared among threads, where there is enough of it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch

# Operations from which on handing work to other threads takes little beside the work itself:
# about two milliseconds.
ENOUGH = 400_000_000
# Parts per thread: where another process has one of the cores, others take over.
_PARTS = 4


def share(kernel: Callable[[int, int], None], count: int, work: float) -> None:
    """Call ``kernel(first, last)`` so that all of ``count`` rows, clients or entries are served.

    Every one is served alone, so that results do not depend on who does it. ``work`` is about how
    many operations that is. Only as many threads as torch may use take part, and only where the
    work is large: for less, waking one costs more than it does.
    """
    threads = torch.get_num_threads()
    if threads == 1 or work < ENOUGH or count < 2:
        kernel(0, count)
        return
    parts = min(count, threads * _PARTS)
    edges = [count * i // parts for i in range(parts + 1)]
    list(_pool(threads).map(kernel, edges[:-1], edges[1:]))


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="atoll-kernels")
