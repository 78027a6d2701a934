"""The engine of a cluster: clients in processes of their own, anywhere, by chunks of the cohort.

A chunk of clients is computed at once by one process, as in a host of all of them, and sums run
over chunks in the same order. So results are those of one process to the byte, however many
processes there are. What crosses are messages of our own codec, as bytes.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from atoll.archive import pack, unpack
from atoll.federation.calls import Call
from atoll.federation.cluster import log, of_cluster
from atoll.federation.codec import decode_answer, step_request
from atoll.federation.protocol import Federation
from atoll.federation.states import Wanted
from atoll.federation.validation import Batch
from atoll.tasks.pooled import LISTENER, Scored
from atoll.tree import Tree, stack, subtree, take

# Requests that wait at a process while it is at work.
_AHEAD = 2


@dataclass(frozen=True)
class Place:
    """A process of the cluster, and the clients that are at home there."""

    actor: Any
    clients: range


@dataclass
class _Pending:
    part: tuple[int, ...]
    place: Place
    answer: Any


class Workers(Federation):
    """One process per run of chunks; ``chunk`` clients at most are computed at once."""

    def __init__(self, ray: Any, places: Sequence[Place], seed: int, chunk: int) -> None:
        super().__init__([c for place in places for c in place.clients], seed)
        self.ray = ray
        self.places_of_work = tuple(places)
        self.chunk = chunk
        self._home = {client: place for place in places for client in place.clients}

    def deliver(self, call: Call, to: tuple[int, ...], each: Tree) -> Iterator[Batch]:
        listener = LISTENER.get()
        request = step_request(call, {})
        message = self.ray.put(request.encode())
        pending: deque[_Pending] = deque()
        starts = iter(range(0, len(to), self.chunk))
        ahead = _AHEAD * len(self.places_of_work)
        with of_cluster():
            while True:
                while len(pending) < ahead and (start := next(starts, None)) is not None:
                    part = to[start : start + self.chunk]
                    rows = take(each, range(start, start + len(part)))
                    pending.append(self._sent(message, part, rows, listener is not None))
                if not pending:
                    return
                first = pending.popleft()
                batch = self._received(first)
                if listener is not None:
                    listener.hear_later(partial(self._overheard, request.id, first))
                yield batch

    def _sent(self, message: Any, part: tuple[int, ...], rows: Tree, listen: bool) -> _Pending:
        """A step for a chunk, at its home; clients of several homes meet at one of them."""
        own = pack(rows, {})
        homes = Counter(self._home[client].clients.start for client in part)
        place = max({self._home[c] for c in part}, key=lambda p: homes[p.clients.start])
        if len(homes) == 1:
            return _Pending(part, place, place.actor.perform.remote(message, own, part, listen))
        guests: dict[Place, list[int]] = {}
        for client in part:
            guests.setdefault(self._home[client], []).append(client)
        states = [home.actor.lend.remote(clients) for home, clients in guests.items()]
        order = [client for clients in guests.values() for client in clients]
        answer, after = place.actor.visited.options(num_returns=2).remote(
            message, own, part, listen, order, *states
        )
        for home, clients in guests.items():
            home.actor.take_back.remote(clients, part, after)
        return _Pending(part, place, answer)

    def _received(self, pending: _Pending) -> Batch:
        answer = decode_answer(self.ray.get(pending.answer))
        for level, text in answer.facts["said"]:
            log.log(int(level), "%s", text)
        weight = answer.tree.get("weight")
        assert weight is None or isinstance(weight, Tensor)
        return Batch(pending.part, subtree(answer.tree, "body"), weight)

    def _overheard(
        self, request: str, pending: _Pending
    ) -> tuple[list[tuple[tuple[int, ...], Scored]], bool]:
        """What was scored, from where it was, while it is still there."""
        with of_cluster():
            found = pending.place.actor.overheard.remote(request, pending.part)
            heard, twice = self.ray.get(found)
        return [(tuple(clients), Scored.of(plain)) for clients, plain in heard], twice

    @property
    def state(self) -> Tree:
        """All clients' states, gathered."""
        with of_cluster():
            parts = self.ray.get([place.actor.state.remote() for place in self.places_of_work])
        return stack([unpack(part)[0] for part in parts])

    def kept(self, wanted: Wanted) -> Tree:
        """The part of :attr:`state` that is wanted, by names of leaves."""
        return {name: leaf for name, leaf in self.state.items() if wanted(name)}

    def whole_state(self) -> Tree:
        return self.state

    def restore(self, state: Tree, releases: Mapping[int, int]) -> None:
        """Give all clients a state that was gathered before."""
        waiting, first = [], 0
        for place in self.places_of_work:
            rows = range(first, first + len(place.clients))
            first += len(place.clients)
            own = {client: releases[client] for client in place.clients if client in releases}
            waiting.append(place.actor.restore.remote(pack(take(state, rows), {}), own))
        with of_cluster():
            self.ray.get(waiting)

    def close(self) -> None:
        """End the processes."""
        for place in self.places_of_work:
            self.ray.kill(place.actor)


class Saying(logging.Handler):
    """What a process of a cluster has to say, to be said where somebody reads it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[tuple[int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append((record.levelno, record.getMessage()))

    def taken(self) -> list[tuple[int, str]]:
        said, self.said = self.said, []
        return said
