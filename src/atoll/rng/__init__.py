"""Randomness keyed by (seed, client, round, step), never by position or order of arrival."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from hashlib import blake2b

import numpy as np

from atoll.kernels import in_use, kernels
from atoll.rng.seeding import generator_at, generators

_SERVER = -1


def stream(seed: int, *key: int | str) -> np.random.Generator:
    """An independent stream for a key: the same on every machine, for every order of calls."""
    return streams([(seed, *key)])[0]


def streams(keys: Iterable[tuple[int | str, ...]]) -> list[np.random.Generator]:
    """The stream of each key, which begins with a seed; many cost little more than one."""
    return generators(_entropy(keys))


def _entropy(keys: Iterable[tuple[int | str, ...]]) -> np.ndarray:
    """What each key's stream is seeded from ``[n, 4]``."""
    digests = b"".join(blake2b(repr(key).encode(), digest_size=16).digest() for key in keys)
    return np.frombuffer(digests, dtype="<u4").reshape(-1, 4)


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
        drawn_from: np.ndarray | None = self.__dict__.pop("_states", None)
        if drawn_from is not None:
            return [generator_at(state) for state in drawn_from]
        return streams(self._keys)

    @property
    def _keys(self) -> Iterable[tuple[int | str, ...]]:
        return ((self.seed, client, self.round, self.step) for client in self.clients)

    @cached_property
    def _states(self) -> np.ndarray:
        """Where the streams are ``[K, 4]``, as long as nobody has them as generators."""
        draws = kernels("draws")
        found: np.ndarray = draws.seeded(draws.seeds(_entropy(self._keys)))
        return found

    def raw(self, counts: Sequence[int], bits: type[np.unsignedinteger]) -> np.ndarray:
        """So many raw unsigned integers of each client's stream, one client's after the other's.

        A client's numbers come from whole words of 64 bits, of which the rest is not used.
        """
        start_K, spans = _words(tuple(counts), 8 // np.dtype(bits).itemsize)
        if not in_use() or "streams" in self.__dict__:
            drawn = [
                np.asarray(stream.bit_generator.random_raw(words), dtype="<u8").view(bits)[:count]
                for stream, words, count in zip(
                    self.streams, np.diff(start_K).tolist(), counts, strict=True
                )
            ]
            return np.concatenate(drawn)
        words = np.empty(start_K[-1], dtype="<u8")
        kernels("draws").draw(self._states, start_K, words)
        numbers = words.view(bits)
        return numbers if spans is None else np.concatenate([numbers[span] for span in spans])

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


@lru_cache(maxsize=64)
def _words(counts: tuple[int, ...], per_word: int) -> tuple[np.ndarray, list[slice] | None]:
    """Where the words begin of clients who draw so many numbers, and where the last one's end
    ``[K + 1]``; and where their numbers are, if these are not all that the words hold."""
    words_K = [-(-count // per_word) for count in counts]
    start_K = np.cumsum([0, *words_K])
    if all(count == per_word * words for count, words in zip(counts, words_K, strict=True)):
        return start_K, None
    firsts = (per_word * start_K).tolist()
    return start_K, [slice(i, i + n) for i, n in zip(firsts[:-1], counts, strict=True)]
