"""One idiom for what is computed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

T = TypeVar("T")


class Cached:
    """An object that never changes, and keeps what was derived from it.

    Attributes that need no argument are ``functools.cached_property``; pure functions of values
    that can be hashed have ``functools.lru_cache``.
    """

    @property
    def derived(self) -> dict[Hashable, object]:
        """What has been computed so far, by key."""
        found: dict[Hashable, object] = vars(self).setdefault("_derived", {})
        return found

    def cached(self, key: Hashable, build: Callable[[], T]) -> T:
        """What ``build`` makes, computed once per key."""
        derived = self.derived
        if key not in derived:
            derived[key] = build()
        return derived[key]  # type: ignore[return-value]

    def has_cached(self, key: Hashable) -> bool:
        return key in self.derived
