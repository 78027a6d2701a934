"""A federation of any registered method on small parties, run by any engine."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from scipy import sparse

from atoll.cohort import Cohort
from atoll.federation.host import Host
from atoll.federation.inprocess import InProcess
from atoll.federation.loopback import Loopback
from atoll.federation.protocol import Federation, Replies
from atoll.graph import Graph
from atoll.leaves import Ragged
from atoll.methods.base import Info, Method, methods
from atoll.models.gcn import GCN
from atoll.models.mlp import MLP
from atoll.partition.anchors import matched
from atoll.tree import Leaf, Tree, flat, stack, under
from small_federations import community_parties

NAMES = sorted(methods)
SMALL = GCN(hidden=8)
SMALL_MLP = MLP(hidden=8, dropout=0.0, bias=False)
# Methods that are made for one kind of model, and with an optimizer of their own.
OTHER_MODELS = {"gfl-appnp": SMALL_MLP, "fed-mlp": SMALL_MLP, "mlp": SMALL_MLP}
# Parties that share nodes for methods that need it with other options only, so that numbers kept
# of them stay comparable.
ANCHORS = {"fed-gnn": True}
# What keeps a method fast on small parties, besides a small model.
BRIEF: dict[str, dict[str, int]] = {"ppfl-deepwalk": {"walks": 3, "length": 10}}


def make(name: str, **options) -> Method:
    usual = {"model": OTHER_MODELS.get(name, SMALL)} | BRIEF.get(name, {})
    return methods[name](**(usual | options))


def small_parties(name: str, *args, **options) -> list[Graph]:
    """Parties a method can be tried on; some nodes are held in common where it builds on them."""
    shared = ANCHORS.get(name, make(name).needs_anchors)
    return community_parties(*args, shared=8 if shared else 0, **options)


def network(numbers: list[int]) -> sparse.csr_array:
    """Links among clients by their numbers: a path, and a link from its first to its middle."""
    k = len(numbers)
    links = np.diag(np.ones(k - 1), 1)
    links[0, k // 2] = 1
    links = links + links.T
    np.fill_diagonal(links, 0)
    return sparse.csr_array(links[np.ix_(numbers, numbers)])


@dataclass
class Outcome:
    """Everything a method ends with."""

    server: Tree
    clients: Tree
    replies: Replies
    fed: Federation
    # What clients scored after each round, and before the first one.
    scores: list[Replies]


def engine(method, parties, numbers, seed, chunk, wire) -> tuple[Federation, list[Host]]:
    whole = Cohort(parties, numbers, dtype=torch.float64)
    if not wire:
        host = Host(method, whole, seed, chunk)
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
) -> Outcome:
    """``numbers`` are the parties' client numbers, in their order by default."""
    if method.pooled:
        parties = parties[:1]
    anchors: tuple[np.ndarray, ...] = ()
    if method.needs_anchors:
        parties, anchors = matched(parties)
    fed, hosts = engine(method, parties, numbers, seed, chunk, wire)
    links = network(numbers or list(range(len(parties)))) if method.needs_network else None
    info = Info(
        len(parties), parties[0].features, parties[0].classes, torch.float64, anchors, links
    )
    state = method.start(info, seed)
    scores = [method.measure(fed, state)]
    for r in range(1, rounds + 1):
        fed.begin(r)
        state = method.round(fed, state, r)
        scores.append(method.measure(fed, state))
    clients = stack([host.state for host in hosts])
    return Outcome(flat(state), clients, scores[-1], fed, scores)


@cache
def usual(name: str) -> Outcome:
    """Three rounds of a method on its usual parties, trained once for all laws."""
    return train(make(name), small_parties(name))


def values(leaf: Leaf) -> torch.Tensor:
    """All numbers of a leaf; rows stay rows where it is ragged."""
    if isinstance(leaf, torch.Tensor):
        return leaf
    if isinstance(leaf, Ragged):
        return leaf.values
    return torch.cat([part.flatten() for part in leaf.parts()])


def sizes(leaf: Leaf) -> tuple[int, ...]:
    """How many rows each client has of a ragged leaf."""
    return leaf.sizes if isinstance(leaf, Ragged) else ()


def assert_same(a: Outcome, b: Outcome, tolerance: float) -> None:
    for one, other in (
        (a.server, b.server),
        (a.clients, b.clients),
        (a.replies.body, b.replies.body),
    ):
        assert set(one) == set(other)
        for name in one:
            assert sizes(one[name]) == sizes(other[name]), name
            torch.testing.assert_close(
                values(one[name]), values(other[name]), rtol=tolerance, atol=tolerance, msg=name
            )


def assert_same_model(a: Tree, b: Tree) -> None:
    """Two states hold the same model."""
    assert set(under(a, "model")) == set(under(b, "model"))
    for name, leaf in under(a, "model").items():
        torch.testing.assert_close(under(b, "model")[name], leaf, rtol=0, atol=1e-12, msg=name)
