"""How many threads a run uses, and for what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from atoll.graph import Graph
from atoll.kernels.sharing import shared_among

_ONE_THREAD_BELOW_NODES = 50_000


def suitable_threads(graphs: Sequence[Graph]) -> int:
    """As many as torch has, where nobody says how many; one for small graphs."""
    return 1 if _small(graphs) else torch.get_num_threads()


@contextmanager
def threads(count: int, graphs: Sequence[Graph]) -> Iterator[None]:
    """``count`` threads for a while.

    Torch hands every operation on some ten thousand numbers to all of its threads, and on small
    graphs waking a second one takes longer than such an operation. There torch has one, and
    only large products and kernels with enough work are shared.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1 if _small(graphs) else count)
    try:
        with shared_among(count):
            yield
    finally:
        torch.set_num_threads(before)


def _small(graphs: Sequence[Graph]) -> bool:
    return sum(len(graph.y) for graph in graphs) < _ONE_THREAD_BELOW_NODES
