"""The contract between a method's server and its clients: two verbs, whatever the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from atoll.errors import NoReplies
from atoll.federation.calls import Call, Replies, Total, content_kinds
from atoll.federation.ledger import Ledger, Verb
from atoll.federation.messages import Messages
from atoll.federation.validation import (
    Batch,
    Rejection,
    bad_values,
    bad_weights,
    checked_copy,
    largest_reply,
    log,
    misfits,
    received,
    usable,
    without,
)
from atoll.leaves import everybody
from atoll.ops.similarity import mixed, weighted_sum
from atoll.rng import server_stream
from atoll.tree import Params, Tree, flat, kind, nested, stack, take

T = TypeVar("T")


class Averaging(ABC):
    """How the server makes one of many replies where it is not by their plain weighted mean."""

    @abstractmethod
    def total(self, fed: Federation, step: str, request: Mapping[str, Any]) -> Total:
        """What :meth:`Federation.sum` returns for a request."""

    @abstractmethod
    def mixed(self, alpha: Tensor, values: Params, sent: Params) -> Params:
        """One mixture per row of ``alpha [n, m]`` of m clients' values, who were ``sent`` those."""

    def admit(self, step: str, expect: Tree) -> None:
        """Refuse a request that would show the server every reply."""
        return

    def remark(self) -> str:
        """What a reader of the result should know of it, in a sentence."""
        return ""


class Federation(ABC):
    """What the server may do. An engine supplies :meth:`deliver` and nothing else.

    ``ask`` shows the server every reply, ``sum`` their weighted sum only: a method whose server
    uses ``sum`` alone can run under secure aggregation.
    """

    # Whether replies come from others, so that none of them may stop the server.
    strangers: ClassVar[bool] = False

    def __init__(self, clients: Sequence[int], seed: int) -> None:
        self.clients = tuple(clients)
        self.seed = seed
        self._place = {client: i for i, client in enumerate(self.clients)}
        self.ledger = Ledger()
        self.rejections: list[Rejection] = []
        # Everything that crosses, where it is to be kept.
        self.messages: Messages | None = None
        # The most that a client may count, where that is known.
        self.heaviest: dict[int, float] = {}
        self.averaging: Averaging | None = None
        # How many things each client has let out, figures about models aside.
        self.releases: Counter[int] = Counter()
        # How many of them one kind of a reply stands for.
        self.per_reply = 1
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

    def asked(self, step: str) -> int:
        """How often a step was asked for in this round so far."""
        return self._calls.get(step, 0)

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
        weighted: bool = False,
    ) -> Replies:
        """Have clients perform a step and see every reply.

        All are kinds of leaves. ``shared`` goes to all, row i of ``each`` to the i-th of ``to``
        (everybody by default). ``expect`` is what one client's reply must look like: tensors of the
        right shape and type, or what :mod:`atoll.leaves` has for other leaves; ``weighted`` says
        that a weight is due beside them.
        """
        one = flat(expect)
        request: Any = {"shared": shared, "each": each, "to": to, "weighted": weighted}
        if self.averaging is not None:
            self.averaging.admit(step, one)

        def use(batch: Batch) -> tuple[Batch, Tree]:
            if not batch.clients:
                return batch, {}
            body, bad = checked_copy(received(batch.body, one))
            good = [i for i in range(len(batch.clients)) if i not in bad]
            return self._leave_out(step, batch, bad), take(body, good) if bad else body

        used = list(self.exchanged("ask", step, one, use=use, **request))
        clients = tuple(client for batch, _ in used for client in batch.clients)
        return Replies(
            clients=clients,
            body=stack([body for _, body in used]),
            weight=torch.cat([batch.weights for batch, _ in used]),
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
        weighted: bool = False,
    ) -> Total:
        """Have clients perform a step and see the weighted sum of their replies only.

        With a robust mean in its place every reply is seen.
        """
        request: Any = {"shared": shared, "each": each, "to": to, "weighted": weighted}
        if self.averaging is not None:
            return self.averaging.total(self, step, request | {"expect": expect})

        def use(batch: Batch) -> tuple[Batch, dict[str, Tensor]]:
            part = _weighted_sum(batch)
            # What is bad survives any sum: only where a sum is not usable are culprits sought.
            if not usable(part, float(batch.weights.sum())):
                batch = self._leave_out(step, batch, bad_values(batch.body))
                part = _weighted_sum(batch)
            return batch, part

        total: dict[str, Tensor] = {}
        weight, count = 0.0, 0
        for batch, part in self.exchanged("sum", step, flat(expect), use=use, **request):
            total = {name: total[name] + part[name] for name in part} if total else part
            weight += float(batch.weights.sum())
            count += len(batch.clients)
        if weight == 0.0:
            raise self._nobody(step)
        mean = nested({name: value / weight for name, value in total.items()})
        return Total(mean, weight, count)

    def mixed(
        self,
        alpha: Tensor,
        values: Params,
        sent: Params | None = None,
        rows: Tensor | None = None,
    ) -> Params:
        """``sum_j alpha_ij theta_j`` for every row i of weights ``[n, m]``, or what a robust mean
        makes of the same; ``sent`` is what clients began from, ``rows`` those of the m in it. Of
        values that are updates already it is zero, one number."""
        if self.averaging is None:
            return mixed(alpha, values)
        began = {n: p[rows] if rows is not None else p for n, p in (sent or {}).items()}
        return self.averaging.mixed(alpha, values, began)

    def places(self, clients: Sequence[int]) -> Tensor:
        """Where some clients stand among all: their rows in the server's tables."""
        if clients == self.clients:
            return torch.arange(len(self.clients))
        return torch.tensor([self._place[client] for client in clients], dtype=torch.int64)

    def exchanged(
        self,
        verb: Verb,
        step: str,
        expect: Tree,
        *,
        use: Callable[[Batch], tuple[Batch, T]],
        shared: Mapping[str, Any] | None = None,
        each: Mapping[str, Any] | None = None,
        to: Sequence[int] | None = None,
        weighted: bool = False,
    ) -> Iterator[tuple[Batch, T]]:
        """Deliver a request, record what crosses, and pass on what is made of good replies."""
        targets = self.clients if to is None else tuple(to)
        nth = self.asked(step)
        self._calls[step] = nth + 1
        rows = flat(each or {})
        kinds = tuple(dict.fromkeys(kind(name) for name in (*(shared or {}), *(each or {}))))
        call = Call(step, self.round, nth, flat(shared or {}), kinds, largest_reply(expect))
        twice = sorted(set(call.shared) & set(rows))
        if twice:
            raise ValueError(f"{twice} are sent to all and to each; choose one")
        reached = self.reached(targets)
        if reached != targets:
            rows = take(rows, [targets.index(client) for client in reached])
        self.ledger.verb = verb
        self.ledger.sent(self.round, step, reached, call.shared, rows)
        if self.messages is not None:
            self.messages.add((self.round, step, nth, verb), False, reached, call.shared, rows)
        count, silent = 0, set(reached)
        for batch in self.deliver(call, reached, rows):
            silent -= set(batch.clients)
            if self.messages is not None:
                self._keep((self.round, step, nth, verb), batch)
            try:
                good, made = self._checked(step, batch, expect, weighted, use)
            except Exception as problem:
                if not self.strangers:
                    raise
                why = f"it can't be used ({type(problem).__name__})"
                self._leave_out(step, batch, everybody(batch.clients, why))
                continue
            if good.clients:
                count += len(good.clients)
                yield good, made
        if self.strangers:  # their replies may be on their way, or in somebody's hands
            self.released(sorted(silent), expect)
        self.enough(count, len(targets))
        if not count:
            raise self._nobody(step)

    def _checked(
        self,
        step: str,
        batch: Batch,
        expect: Tree,
        weighted: bool,
        use: Callable[[Batch], tuple[Batch, T]],
    ) -> tuple[Batch, T]:
        self.ledger.received(self.round, step, batch.clients, batch.body, batch.weight)
        self.released(batch.clients, batch.body)
        batch = self._leave_out(step, batch, misfits(batch, expect))
        batch = self._leave_out(step, batch, bad_weights(batch, weighted, self.heaviest))
        return use(batch)

    def _keep(self, call: tuple[int, str, int, Verb], batch: Batch) -> None:
        assert self.messages is not None
        weight: Tree = {} if batch.weight is None else {"weight": batch.weight}
        self.messages.add(call, True, batch.clients, {}, batch.body | weight)

    def released(self, clients: Sequence[int], names: Iterable[str]) -> None:
        """Count what clients have let out."""
        self.releases.update(dict.fromkeys(clients, self.per_reply * len(content_kinds(names))))

    def reached(self, to: tuple[int, ...]) -> tuple[int, ...]:
        """Those of some clients that a request will be sent to."""
        return to

    def enough(self, used: int, asked: int) -> None:
        """Called when all replies are in; an engine may refuse to go on with so few good ones."""
        return

    def _leave_out(self, step: str, batch: Batch, bad: Mapping[int, str]) -> Batch:
        """The batch without some of its positions, each put on record with the reason."""
        for position, reason in sorted(bad.items()):
            self.reject(step, batch.clients[position], reason)
        return without(batch, bad) if bad else batch

    def reject(self, step: str, client: int, reason: str) -> None:
        """Put on record that a reply is left out. A reason may quote the reply, so it is cut."""
        reason = reason if len(reason) <= _LONGEST_REASON else reason[:_LONGEST_REASON] + "..."
        self.rejections.append(Rejection(self.round, step, client, reason))
        log.warning(
            "round %d: client %d's reply to '%s' is left out: %s.", self.round, client, step, reason
        )

    def _nobody(self, step: str) -> NoReplies:
        return NoReplies(f"no client gave a usable reply to '{step}' in round {self.round}.")


_LONGEST_REASON = 300


def _weighted_sum(batch: Batch) -> dict[str, Tensor]:
    sums: dict[str, Tensor] = {}
    weights = batch.weights
    for name, leaf in batch.body.items():
        if not isinstance(leaf, Tensor):
            raise TypeError(f"'{name}' is ragged: a sum needs replies of one shape")
        sums[name] = weighted_sum(weights, leaf)
    return sums
