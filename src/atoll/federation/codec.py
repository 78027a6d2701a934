"""Requests and answers as bytes: the one form in which anything crosses between server and site.

A request says what is wanted (``ask``), of which run, in which attempt, and has an id of its own.
An answer repeats the id and holds either a tree or the class name of the error; never its text,
which could quote private data, and never a pickle. The step of a method is one such request: its
tree is ``shared/...`` and ``each/...``, its answer's ``body/...`` and ``weight``.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from atoll.archive import Unreadable, pack, unpack
from atoll.errors import AtollError
from atoll.federation.calls import Call
from atoll.federation.validation import Batch
from atoll.tree import Leaf, Tree, prefixed, subtree

# What no honest message exceeds. Both sides refuse more before they look inside.
LARGEST_MESSAGE = 2**31 - 2**20


class BadMessage(AtollError):
    """Bytes that are no message of ours, or a message that is not the one expected."""


@dataclass(frozen=True)
class Request:
    """What the server wants of a site."""

    ask: str
    run: str = ""
    attempt: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    tree: Mapping[str, Leaf] = field(default_factory=dict)
    id: str = field(default_factory=lambda: secrets.token_hex(8))

    def encode(self) -> bytes:
        facts = {"ask": self.ask, "run": self.run, "attempt": self.attempt, "id": self.id}
        return pack(self.tree, facts | {"more": dict(self.facts)})


@dataclass(frozen=True)
class Answer:
    """What a site sends back: a tree and facts, or the class name of what went wrong there."""

    id: str
    tree: Mapping[str, Leaf] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""

    def encode(self) -> bytes:
        return pack(self.tree, {"id": self.id, "error": self.error, "more": dict(self.facts)})


def decode_request(message: bytes) -> Request:
    tree, facts = _decode(message)
    try:
        ask, run, attempt = str(facts["ask"]), str(facts["run"]), int(facts["attempt"])
        return Request(ask, run, attempt, _plain(facts), tree, str(facts["id"]))
    except (KeyError, TypeError, ValueError) as problem:
        raise BadMessage(f"a request without {problem}; it is damaged.") from problem


def decode_answer(message: bytes) -> Answer:
    tree, facts = _decode(message)
    try:
        return Answer(str(facts["id"]), tree, _plain(facts), str(facts["error"]))
    except (KeyError, TypeError, ValueError) as problem:
        raise BadMessage(f"an answer without {problem}; it is damaged.") from problem


def step_request(
    call: Call, row: Mapping[str, Leaf], run: str = "", attempt: int = 0, best: int = 0
) -> Request:
    """A call to one client: what all get, and the row that is its own.

    ``best`` is the best round so far, so that a site can keep the model it had then.
    """
    facts = {"step": call.step, "round": call.round, "nth": call.nth, "kinds": call.kinds}
    facts |= {"best": best} if best else {}
    tree = prefixed("shared", call.shared) | prefixed("each", row)
    return Request("step", run, attempt, facts, tree)


def step_call(request: Request) -> tuple[Call, Tree]:
    """The inverse of :func:`step_request`: the call, and the client's own row."""
    facts = request.facts
    try:
        step, round, nth = str(facts["step"]), int(facts["round"]), int(facts["nth"])
        kinds = tuple(str(kind) for kind in facts["kinds"])
    except (KeyError, TypeError, ValueError) as problem:
        raise BadMessage(f"a step without {problem}; it is damaged.") from problem
    call = Call(step, round, nth, subtree(request.tree, "shared"), kinds)
    return call, subtree(request.tree, "each")


def best_round(facts: Mapping[str, Any]) -> int:
    """The best round so far, as the server has it; 0 if there is none."""
    best = facts.get("best", 0)
    if type(best) is not int or best < 0:
        raise BadMessage("a best round that is no number of a round; it is damaged.")
    return best


def step_answer(request: Request, batch: Batch) -> Answer:
    """One client's reply to a step."""
    tree = prefixed("body", batch.body)
    if batch.weight is not None:
        tree["weight"] = batch.weight
    return Answer(request.id, tree)


def step_batch(client: int, answer: Answer) -> Batch:
    """The inverse of :func:`step_answer`; refused unless it is the reply of one client."""
    body = subtree(answer.tree, "body")
    weight = answer.tree.get("weight")
    if any(_clients(leaf) != 1 for leaf in body.values()):
        raise BadMessage("it is not one client's reply")
    if weight is not None and not (isinstance(weight, Tensor) and weight.shape == (1,)):
        raise BadMessage("its weight is not one number")
    return Batch((client,), body, weight)


def _clients(leaf: Leaf) -> int:
    """How many clients a leaf holds the parts of."""
    if isinstance(leaf, Tensor):
        return len(leaf) if leaf.dim() else 0
    return leaf.clients


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    more = facts["more"]
    if not isinstance(more, dict):
        raise TypeError("facts")
    return more


def _decode(message: bytes) -> tuple[Tree, dict[str, Any]]:
    """A tree whose leaves have vouched for themselves, and plain facts."""
    if not isinstance(message, bytes | bytearray | memoryview):
        raise BadMessage("a message that is not bytes; it is damaged.")
    if len(message) > LARGEST_MESSAGE:
        raise BadMessage(f"a message of {len(message)} bytes, more than {LARGEST_MESSAGE}.")
    try:
        tree, facts = unpack(bytes(message))
    except Unreadable as problem:
        raise BadMessage(f"a message can't be read ({problem}); it is damaged.") from problem
    if not isinstance(facts, dict):
        raise BadMessage("a message without facts; it is damaged.")
    return tree, facts
