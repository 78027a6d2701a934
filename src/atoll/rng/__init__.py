"""Randomness keyed by (seed, client, round, step), never by position or order of arrival."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from hashlib import blake2b

import numpy as np

from atoll.rng.seeding import generators

_SERVER = -1


def stream(seed: int, *key: int | str) -> np.random.Generator:
    """An independent stream for a key: the same on every machine, for every order of calls."""
    return streams([(seed, *key)])[0]


def streams(keys: Iterable[tuple[int | str, ...]]) -> list[np.random.Generator]:
    """The stream of each key, which begins with a seed; many cost little more than one."""
    digests = b"".join(blake2b(repr(key).encode(), digest_size=16).digest() for key in keys)
    return generators(np.frombuffer(digests, dtype="<u4").reshape(-1, 4))


class CohortRng:
    """The randomness of one step for K clients: one stream per client, and common ones.

    ``streams[i]`` belongs to the client at position ``i`` and depends on the client alone, so
    that a cohort draws the same numbers whole, in chunks or one by one.
    """

    def __init__(self, seed: int, clients: Sequence[int], round: int, step: str) -> None:
        self.seed = seed
        self.clients = tuple(clients)
        self.round = round
        self.step = step

    @cached_property
    def streams(self) -> list[np.random.Generator]:
        return streams((self.seed, client, self.round, self.step) for client in self.clients)

    def only(self, active: Sequence[bool]) -> CohortRng:
        """The same streams for some of the clients; what others draw is drawn from nobody's."""
        part = CohortRng(self.seed, self.clients, self.round, self.step)
        part.streams = [
            own if takes_part else stream(0, "nobody")
            for own, takes_part in zip(self.streams, active, strict=True)
        ]
        return part

    def common(self, name: str) -> np.random.Generator:
        """A stream every party can make by itself from the seed alone: public coins."""
        return stream(self.seed, _SERVER, 0, name)


def server_stream(seed: int, round: int, name: str) -> np.random.Generator:
    """The server's own randomness in a round."""
    return stream(seed, _SERVER, round, name)
