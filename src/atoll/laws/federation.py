"""A federation of any method on small parties, run by any engine, and all that it ends with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import torch
from scipy import sparse

from atoll.archive import pack, unpack
from atoll.cohort import Cohort
from atoll.errors import NoReplies
from atoll.federation.calls import Call, Replies
from atoll.federation.host import Host
from atoll.federation.inprocess import InProcess
from atoll.federation.loopback import Loopback
from atoll.federation.protocol import Federation
from atoll.federation.validation import Batch, without
from atoll.graph import Graph
from atoll.methods.base import Info, Method
from atoll.partition.anchors import matched
from atoll.tree import Leaf, Tree, copy, flat, nested, stack

Heard = list[tuple[str, Leaf]]


class Snapshot(NamedTuple):
    """Both sides' states after a round."""

    round: int
    server: Tree
    clients: Tree


class Spoiled(NamedTuple):
    """A client whose replies of one round are not numbers, or do not come at all."""

    client: int
    round: int
    how: Literal["nan", "missing"]


@dataclass
class Outcome:
    """Everything a method ends with."""

    server: Tree
    clients: Tree
    replies: Replies
    fed: Federation
    # What clients scored after each round, and before the first one.
    scores: list[Replies]
    # The states after each round, if they were to be kept.
    rounds: list[Snapshot] = field(default_factory=list)
    # How many replies were spoiled.
    spoiled: int = 0


class _Overheard(Host):
    """A host that repeats all that leaves it."""

    heard: Heard

    def perform(self, call: Call, to: Sequence[int], each: Tree) -> Iterator[Batch]:
        for batch in super().perform(call, to, each):
            for name, leaf in copy(batch.body).items():
                self.heard.append((name, leaf))
            yield batch


class _WithSpoiled(InProcess):
    """An engine in which one client's replies go wrong."""

    spoiled: Spoiled
    count = 0

    def deliver(self, call: Call, to: tuple[int, ...], each: Tree) -> Iterator[Batch]:
        client, round, how = self.spoiled
        for batch in super().deliver(call, to, each):
            if call.round != round or call.step == "evaluate" or client not in batch.clients:
                yield batch
                continue
            at = batch.clients.index(client)
            floats = {n for n, v in batch.body.items() if _is_float(v)}
            self.count += bool(floats)
            if not floats:
                yield batch
            elif how == "missing":
                yield without(batch, {at: "missing"})
            else:
                body = copy(batch.body)
                for name in floats:
                    body[name][at] = float("nan")  # type: ignore[index]
                yield Batch(batch.clients, body, batch.weight)


def _is_float(leaf: object) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.numel() > 0


def network(numbers: Sequence[int]) -> sparse.csr_array:
    """Links among clients by their numbers: a path, and a link from its first to its middle."""
    k = len(numbers)
    links = np.diag(np.ones(k - 1), 1)
    links[0, k // 2] = 1
    links = links + links.T
    np.fill_diagonal(links, 0)
    return sparse.csr_array(links[np.ix_(numbers, numbers)])


def engine(
    method: Method,
    parties: Sequence[Graph],
    numbers: Sequence[int] | None = None,
    seed: int = 0,
    chunk: int = 0,
    wire: bool = False,
    heard: Heard | None = None,
) -> tuple[Federation, list[Host]]:
    """All clients in one host, or each in one of its own behind bytes."""
    whole = Cohort(list(parties), numbers, dtype=torch.float64)
    if not wire:
        host = Host(method, whole, seed, chunk)
        if heard is not None:
            host = _Overheard(method, whole, seed, chunk)
            host.heard = heard
        return InProcess(host), [host]
    hosts = [Host(method, whole.take([p]), seed) for p in range(whole.k)]
    return Loopback(hosts), hosts


def train(
    method: Method,
    parties: list[Graph],
    rounds: int = 3,
    seed: int = 0,
    chunk: int = 0,
    wire: bool = False,
    numbers: list[int] | None = None,
    keep: bool = False,
    resumed_by: tuple[int, Method] | None = None,
    spoiled: Spoiled | None = None,
    heard: Heard | None = None,
) -> Outcome:
    """Some rounds of a method.

    ``numbers`` are the parties' client numbers, in their order by default. ``resumed_by`` is a
    round after which all is saved as bytes, and another object of the method that goes on from
    them. ``keep`` keeps the states after each round; ``heard`` gets every leaf of every reply.
    """
    if method.pooled:
        parties = parties[:1]
    anchors: tuple[np.ndarray, ...] = ()
    if method.needs_anchors:
        parties, anchors = matched(parties)
    fed, hosts = engine(method, parties, numbers, seed, chunk, wire, heard)
    if spoiled is not None:
        fed = _WithSpoiled(hosts[0])
        fed.spoiled = spoiled
    links = network(numbers or list(range(len(parties)))) if method.needs_network else None
    info = Info(
        len(parties), parties[0].features, parties[0].classes, torch.float64, anchors, links
    )
    state = method.start(info, seed)
    scores = [method.measure(fed, state)]
    kept: list[Snapshot] = []
    for r in range(1, rounds + 1):
        fed.begin(r)
        try:
            state = method.round(fed, state, r)
        except NoReplies:  # as in a run, such a round changes nothing
            if spoiled is None:
                raise
        scores.append(method.measure(fed, state))
        if keep:
            kept.append(Snapshot(r, copy(flat(state)), copy(stack([h.state for h in hosts]))))
        if resumed_by is not None and resumed_by[0] == r:
            saved = pack(flat(state), {}), [pack(host.state, {}) for host in hosts]
            method = resumed_by[1]
            fed, hosts = engine(method, parties, numbers, seed, chunk, wire)
            state = nested(unpack(saved[0])[0])
            for host, content in zip(hosts, saved[1], strict=True):
                host.state = unpack(content)[0]
    clients = stack([host.state for host in hosts])
    count = fed.count if isinstance(fed, _WithSpoiled) else 0
    return Outcome(flat(state), clients, scores[-1], fed, scores, kept, count)
