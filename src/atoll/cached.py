"""One idiom for what is computed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from atoll.leaves import Ragged
from atoll.tree import Leaf

T = TypeVar("T")


class Cached:
    """An object that never changes, and keeps what was derived from it.

    Attributes that need no argument are ``functools.cached_property``; pure functions of values
    that can be hashed have ``functools.lru_cache``.
    """

    def __init__(self) -> None:
        self._derived: dict[Hashable, object] = {}

    def cached(self, key: Hashable, build: Callable[[], T]) -> T:
        """What ``build`` makes, computed once per key."""
        if key not in self._derived:
            self._derived[key] = build()
        return self._derived[key]  # type: ignore[return-value]

    def has_cached(self, key: Hashable) -> bool:
        return key in self._derived

    def latest(self, key: Hashable, leaves: Sequence[Leaf], build: Callable[[], T]) -> T:
        """What ``build`` makes of some leaves; only the last result per key is kept.

        Leaves are compared entry by entry, so the result is the same as if it were made anew each
        time. They must not be changed in place afterwards.
        """
        known = self._derived.get(key)
        if known is None or not _same(known[0], leaves):  # type: ignore[index]
            known = tuple(leaves), build()
            self._derived[key] = known
        return known[1]  # type: ignore[index, no-any-return]


def _same(known: Sequence[Leaf], leaves: Sequence[Leaf]) -> bool:
    return all(_equal(one, other) for one, other in zip(known, leaves, strict=True))


def _equal(one: Leaf, other: Leaf) -> bool:
    if isinstance(one, Ragged) and isinstance(other, Ragged):
        return one.sizes == other.sizes and torch.equal(one.values, other.values)
    return isinstance(one, Tensor) and isinstance(other, Tensor) and torch.equal(one, other)
