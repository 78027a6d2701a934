"""The contract between a method's server and its clients: two verbs, whatever the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.errors import NoReplies
from atoll.federation.ledger import Ledger, Verb
from atoll.federation.validation import (
    Batch,
    Rejection,
    bad_values,
    bad_weights,
    log,
    misfits,
    received,
    without,
)
from atoll.rng import CohortRng, server_stream
from atoll.tree import Kinds, Tree, copy, flat, kind, nested, stack, take

Step = TypeVar("Step", bound=Callable[..., Any])


def client_step(step: Step) -> Step:
    """Mark a function of a method as a step the server may ask clients to perform.

    Its signature is ``step(self, client, <kinds it is sent>) -> Reply``: parameters are named after
    kinds, and one with a default may be left out by the server. It is written over K clients and
    must not mix them. Every leaf it gets has a leading K axis, whether it was sent to all alike or
    to each its own.
    """
    step.is_client_step = True  # type: ignore[attr-defined]
    return step


class Reply:
    """What leaves K clients: kinds of leaves with a leading K axis, and each one's weight ``[K]``.

    ``Reply(model=w, weight=n)``; without a weight everybody counts the same.
    """

    def __init__(self, weight: Any = None, **kinds: Any) -> None:
        self.kinds: Kinds = kinds
        self.weight: Tensor | None = weight


@dataclass(frozen=True)
class Call:
    """A request as an engine sees it: which step, when, and what every client gets."""

    step: str
    round: int
    nth: int
    shared: Tree
    # The kinds that are sent, to all or to each, also those that have no leaf.
    kinds: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Names the randomness: the same step asked twice in a round must not repeat it."""
        return f"{self.step}#{self.nth}"


class Performer(Protocol):
    """What a host needs of a method: clients' first states, and steps on them."""

    @property
    def private(self) -> frozenset[str]:
        """Kinds that may never leave a client."""

    def first_state(self, cohort: Cohort, rng: CohortRng) -> Tree:
        """The private state that clients begin with."""

    def perform(
        self, call: Call, row: Tree, cohort: Cohort, state: Tree, rng: CohortRng
    ) -> tuple[Tree, Batch]:
        """A step for K clients, each with a row of its own: their next state and their replies."""


@dataclass(frozen=True)
class Replies:
    """Everybody's replies: leaves ``[m, ...]``, in the order of ``clients``.

    ``replies["model"]`` are the leaves of a kind; ``rows`` are the places of those who answered
    among all clients, and so their rows in the server's tables.
    """

    clients: tuple[int, ...]
    body: Tree
    weight: Tensor
    rows: Tensor

    def __getitem__(self, kind: str) -> dict[str, Any]:
        return self.kinds[kind]

    @cached_property
    def kinds(self) -> Kinds:
        return nested(self.body)

    def __or__(self, further: Mapping[str, Any]) -> Replies:
        """The same replies with further leaves ``[m, ...]``."""
        return Replies(self.clients, self.body | flat(further), self.weight, self.rows)

    def without(self, clients: Collection[int]) -> Replies:
        """The replies of the others."""
        stay = [i for i, client in enumerate(self.clients) if client not in clients]
        others = tuple(self.clients[i] for i in stay)
        return Replies(others, take(self.body, stay), self.weight[stay], self.rows[stay])


@dataclass(frozen=True)
class Total:
    """The weighted sum of the replies, as their mean and the weight it stands for."""

    mean: Kinds
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
        self._place = {client: i for i, client in enumerate(self.clients)}
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
        expect: Mapping[str, Any],
        shared: Mapping[str, Any] | None = None,
        each: Mapping[str, Any] | None = None,
        to: Sequence[int] | None = None,
    ) -> Replies:
        """Have clients perform a step and see every reply.

        All are kinds of leaves. ``shared`` goes to all, row i of ``each`` to the i-th of ``to``
        (everybody by default). ``expect`` is what one client's reply must look like: tensors of the
        right shape and type, or what :mod:`atoll.leaves` has for other leaves.
        """
        one = flat(expect)
        used: list[Batch] = []
        for batch in self._usable("ask", step, one, shared, each, to):
            bad = bad_values(batch.body)
            batch = self._leave_out(step, batch, dict.fromkeys(bad, "NaN or infinite values"))
            if batch.clients:
                body = copy(received(batch.body, one))
                used.append(Batch(batch.clients, body, batch.weights))
        if not used:
            raise self._nobody(step)
        clients = tuple(client for batch in used for client in batch.clients)
        return Replies(
            clients=clients,
            body=stack([batch.body for batch in used]),
            weight=torch.cat([batch.weights for batch in used]),
            rows=self.places(clients),
        )

    def sum(
        self,
        step: str,
        *,
        expect: Mapping[str, Any],
        shared: Mapping[str, Any] | None = None,
        each: Mapping[str, Any] | None = None,
        to: Sequence[int] | None = None,
    ) -> Total:
        """Have clients perform a step and see the weighted sum of their replies only."""
        total: dict[str, Tensor] = {}
        weight, count = 0.0, 0
        for batch in self._usable("sum", step, flat(expect), shared, each, to):
            part = _weighted_sum(batch)
            # NaN and infinity survive any sum: only where one is left are culprits sought.
            if not all(bool(value.sum().isfinite()) for value in part.values()):
                bad = bad_values(batch.body)
                batch = self._leave_out(step, batch, dict.fromkeys(bad, "NaN or infinite values"))
                part = _weighted_sum(batch)
            if batch.clients:
                total = {name: total[name] + part[name] for name in part} if total else part
                weight += float(batch.weights.sum())
                count += len(batch.clients)
        if weight == 0.0:
            raise self._nobody(step)
        mean = nested({name: value / weight for name, value in total.items()})
        return Total(mean, weight, count)

    def places(self, clients: Sequence[int]) -> Tensor:
        """Where some clients stand among all: their rows in the server's tables."""
        return torch.tensor([self._place[client] for client in clients], dtype=torch.int64)

    def _usable(
        self,
        verb: Verb,
        step: str,
        expect: Tree,
        shared: Mapping[str, Any] | None,
        each: Mapping[str, Any] | None,
        to: Sequence[int] | None,
    ) -> Iterator[Batch]:
        """Deliver a request, record what crosses, and pass on the well-formed replies."""
        targets = self.clients if to is None else tuple(to)
        nth = self._calls.get(step, 0)
        self._calls[step] = nth + 1
        rows = flat(each or {})
        kinds = tuple(dict.fromkeys(kind(name) for name in (*(shared or {}), *(each or {}))))
        call = Call(step, self.round, nth, flat(shared or {}), kinds)
        twice = sorted(set(call.shared) & set(rows))
        if twice:
            raise ValueError(f"{twice} are sent to all and to each; choose one")
        self.ledger.verb = verb
        self.ledger.sent(self.round, step, targets, call.shared, rows)
        for batch in self.deliver(call, targets, rows):
            self.ledger.received(self.round, step, batch.clients, batch.body, batch.weight)
            batch = self._leave_out(step, batch, misfits(batch, expect))
            bad = bad_weights(batch.weights)
            batch = self._leave_out(
                step, batch, dict.fromkeys(bad, "its weight is negative or not finite")
            )
            if batch.clients:
                yield batch

    def _leave_out(self, step: str, batch: Batch, bad: Mapping[int, str]) -> Batch:
        """The batch without some of its positions, each put on record with the reason."""
        for position, reason in sorted(bad.items()):
            self.reject(step, batch.clients[position], reason)
        return without(batch, bad) if bad else batch

    def reject(self, step: str, client: int, reason: str) -> None:
        """Put on record that a reply is left out."""
        self.rejections.append(Rejection(self.round, step, client, reason))
        log.warning(
            "round %d: client %d's reply to '%s' is left out: %s.", self.round, client, step, reason
        )

    def _nobody(self, step: str) -> NoReplies:
        return NoReplies(f"no client gave a usable reply to '{step}' in round {self.round}.")


def _weighted_sum(batch: Batch) -> dict[str, Tensor]:
    sums: dict[str, Tensor] = {}
    for name, leaf in batch.body.items():
        if not isinstance(leaf, Tensor):
            raise TypeError(f"'{name}' is ragged: a sum needs replies of one shape")
        sums[name] = torch.tensordot(batch.weights.to(leaf.dtype), leaf, dims=1)
    return sums
