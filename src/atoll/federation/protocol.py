"""The contract between a method's server and its clients: two verbs, whatever the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from atoll.errors import NoReplies
from atoll.federation.ledger import Ledger
from atoll.federation.validation import (
    Batch,
    Rejection,
    bad_values,
    bad_weights,
    log,
    misfit,
    without,
)
from atoll.rng import server_stream
from atoll.tree import Leaf, Ragged, Tree, copy, stack, take

Step = TypeVar("Step", bound=Callable[..., Any])


def client_step(step: Step) -> Step:
    """Mark a function of a method as a step the server may ask clients to perform.

    Its signature is ``step(self, cohort, state, shared, each, rng) -> (state, Reply)``. It is
    written over K clients and must not mix them. It owns the state it is given and may change
    it in place.
    """
    step.is_client_step = True  # type: ignore[attr-defined]
    return step


@dataclass(frozen=True)
class Reply:
    """What leaves K clients: leaves with a leading K axis, and a weight each ``[K]``."""

    body: Tree
    weight: Tensor | None = None


@dataclass(frozen=True)
class Call:
    """A request as an engine sees it: which step, when, and what every client gets."""

    step: str
    round: int
    nth: int
    shared: Tree

    @property
    def key(self) -> str:
        """Names the randomness: the same step asked twice in a round must not repeat it."""
        return f"{self.step}#{self.nth}"


@dataclass(frozen=True)
class Replies:
    """Everybody's replies: ``body`` leaves ``[m, ...]`` or ragged, in the order of ``clients``."""

    clients: tuple[int, ...]
    body: Tree
    weight: Tensor

    def without(self, clients: Collection[int]) -> Replies:
        """The replies of the others."""
        rows = [i for i, client in enumerate(self.clients) if client not in clients]
        others = tuple(self.clients[i] for i in rows)
        return Replies(others, take(self.body, rows), self.weight[rows])


@dataclass(frozen=True)
class Total:
    """The weighted sum of the replies, as their mean and the weight it stands for."""

    mean: Tree
    weight: float
    count: int


class Federation(ABC):
    """What the server may do. An engine supplies :meth:`deliver` and nothing else.

    ``ask`` shows the server every reply, ``sum`` their weighted sum only: a method whose server
    uses ``sum`` alone can run under secure aggregation.
    """

    def __init__(self, clients: Sequence[int], seed: int) -> None:
        self.clients = tuple(clients)
        self.seed = seed
        self.ledger = Ledger()
        self.rejections: list[Rejection] = []
        self.round = 0
        self._calls: dict[str, int] = {}

    @abstractmethod
    def deliver(self, call: Call, to: tuple[int, ...], each: Tree) -> Iterator[Batch]:
        """Have the clients ``to`` perform a step; ``each`` has a row for each of them.

        Batches come in the order of ``to``, whatever the order of arrival, so that sums do not
        depend on it. A batch may alias the clients' state until the next one is asked for.
        Clients that do not answer are simply missing.
        """

    def begin(self, round: int) -> None:
        """The runner's word that a round begins."""
        self.round = round
        self._calls = {}

    def rng(self, name: str) -> np.random.Generator:
        """The server's own randomness in this round."""
        return server_stream(self.seed, self.round, name)

    def ask(
        self,
        step: str,
        *,
        expect: Mapping[str, Leaf],
        shared: Mapping[str, Leaf] | None = None,
        each: Mapping[str, Leaf] | None = None,
        to: Sequence[int] | None = None,
    ) -> Replies:
        """Have clients perform a step and see every reply.

        ``shared`` goes to all, row i of ``each`` to the i-th of ``to`` (everybody by default).
        ``expect`` is what one client's reply must look like: names, shapes and types.
        """
        used: list[Batch] = []
        for batch in self._usable(step, expect, shared, each, to):
            batch = self._leave_out(step, batch, bad_values(batch.body, len(batch.clients)), "NaN")
            if batch.clients:
                used.append(Batch(batch.clients, copy(batch.body), batch.weights))
        if not used:
            raise self._nobody(step)
        return Replies(
            clients=tuple(client for batch in used for client in batch.clients),
            body=stack([batch.body for batch in used]),
            weight=torch.cat([batch.weights for batch in used]),
        )

    def sum(
        self,
        step: str,
        *,
        expect: Mapping[str, Leaf],
        shared: Mapping[str, Leaf] | None = None,
        each: Mapping[str, Leaf] | None = None,
        to: Sequence[int] | None = None,
    ) -> Total:
        """Have clients perform a step and see the weighted sum of their replies only."""
        total: dict[str, Tensor] = {}
        weight, count = 0.0, 0
        for batch in self._usable(step, expect, shared, each, to):
            part = _weighted_sum(batch)
            # NaN and infinity survive any sum: only where one is left are culprits sought.
            if not all(bool(value.sum().isfinite()) for value in part.values()):
                bad = bad_values(batch.body, len(batch.clients))
                batch = self._leave_out(step, batch, bad, "NaN or infinite values")
                part = _weighted_sum(batch)
            if batch.clients:
                total = {name: total[name] + part[name] for name in part} if total else part
                weight += float(batch.weights.sum())
                count += len(batch.clients)
        if weight == 0.0:
            raise self._nobody(step)
        return Total({name: value / weight for name, value in total.items()}, weight, count)

    def _usable(
        self,
        step: str,
        expect: Mapping[str, Leaf],
        shared: Mapping[str, Leaf] | None,
        each: Mapping[str, Leaf] | None,
        to: Sequence[int] | None,
    ) -> Iterator[Batch]:
        """Deliver a request, record what crosses, and pass on the well-formed replies."""
        targets = self.clients if to is None else tuple(to)
        nth = self._calls.get(step, 0)
        self._calls[step] = nth + 1
        call = Call(step, self.round, nth, dict(shared or {}))
        rows = dict(each or {})
        self.ledger.sent(self.round, step, targets, call.shared, rows)
        for batch in self.deliver(call, targets, rows):
            self.ledger.received(self.round, step, batch.clients, batch.body, batch.weight)
            reason = misfit(batch.body, expect)
            everyone = torch.ones(len(batch.clients), dtype=torch.bool)
            if reason is not None:
                batch = self._leave_out(step, batch, everyone, reason)
            batch = self._leave_out(step, batch, bad_weights(batch.weights), "a bad weight")
            if batch.clients:
                yield batch

    def _leave_out(self, step: str, batch: Batch, bad: Tensor, reason: str) -> Batch:
        if not bool(bad.any()):
            return batch
        for client, is_bad in zip(batch.clients, bad.tolist(), strict=True):
            if is_bad:
                self.reject(step, client, reason)
        return without(batch, bad)

    def reject(self, step: str, client: int, reason: str) -> None:
        """Put on record that a reply is left out. Methods that check more than its form use it."""
        self.rejections.append(Rejection(self.round, step, client, reason))
        log.warning(
            "round %d: client %d's reply to '%s' is left out: %s.", self.round, client, step, reason
        )

    def with_rows(
        self, step: str, replies: Replies, name: str, counts: Mapping[int, int]
    ) -> Replies:
        """The replies to a step in which a leaf has as many rows as its client must send."""
        leaf = replies.body[name]
        assert isinstance(leaf, Ragged)
        sizes = zip(replies.clients, leaf.sizes, strict=True)
        bad = {client: size for client, size in sizes if size != counts[client]}
        for client, size in sorted(bad.items()):
            self.reject(step, client, f"{size} rows of '{name}' where {counts[client]} are due")
        if len(bad) == len(replies.clients):
            raise self._nobody(step)
        return replies.without(set(bad)) if bad else replies

    def _nobody(self, step: str) -> NoReplies:
        return NoReplies(f"no client gave a usable reply to '{step}' in round {self.round}.")


def _weighted_sum(batch: Batch) -> dict[str, Tensor]:
    sums: dict[str, Tensor] = {}
    for name, leaf in batch.body.items():
        if not isinstance(leaf, Tensor):
            raise TypeError(f"'{name}' is ragged: a sum needs replies of one shape")
        sums[name] = torch.tensordot(batch.weights.to(leaf.dtype), leaf, dims=1)
    return sums
