"""What crosses between a method's server and its clients: calls of steps, replies, their sums."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

from torch import Tensor

from atoll.cohort import Cohort
from atoll.federation.validation import Batch
from atoll.rng import CohortRng
from atoll.tree import Kinds, Tree, flat, kind, nested, take

Step = TypeVar("Step", bound=Callable[..., Any])
# Figures about models, and what belongs to secure sums rather than to a method.
_NO_CONTENT = ("metric", "secure")


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
    # The bytes that a good reply has at most, where that can be said.
    largest_reply: int | None = None

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


def content_kinds(names: Iterable[str]) -> list[str]:
    """The kinds of a reply that say something of a client's data, figures of models aside."""
    return [which for which in dict.fromkeys(map(kind, names)) if which not in _NO_CONTENT]
