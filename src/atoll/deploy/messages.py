"""What crosses between the coordinator and a site: a tree and a few plain facts, as bytes.

A request says what is wanted (``ask``), of which run, in which attempt, and has an id of its own.
A reply repeats the id and holds either a tree or the class name of the error; never its text, which
could quote private data, and never a pickle.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from atoll.archive import Unreadable, pack, unpack
from atoll.tree import Leaf, Ragged, Tree

# What no honest message exceeds. Both sides refuse more before they look inside.
LARGEST_MESSAGE = 2**31 - 2**20


class BadMessage(ValueError):
    """Bytes that are no message of ours."""


@dataclass(frozen=True)
class Request:
    """What the coordinator wants of a site."""

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
        raise BadMessage(f"a request without {problem}") from problem


def decode_answer(message: bytes) -> Answer:
    tree, facts = _decode(message)
    try:
        return Answer(str(facts["id"]), tree, _plain(facts), str(facts["error"]))
    except (KeyError, TypeError, ValueError) as problem:
        raise BadMessage(f"a reply without {problem}") from problem


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    more = facts["more"]
    if not isinstance(more, dict):
        raise TypeError("facts")
    return more


def _decode(message: bytes) -> tuple[Tree, dict[str, Any]]:
    if not isinstance(message, bytes | bytearray | memoryview):
        raise BadMessage("not bytes")
    if len(message) > LARGEST_MESSAGE:
        raise BadMessage(f"{len(message)} bytes, more than {LARGEST_MESSAGE}")
    try:
        tree, facts = unpack(bytes(message))
    except Unreadable as problem:
        raise BadMessage(str(problem)) from problem
    if not isinstance(facts, dict):
        raise BadMessage("no facts")
    for name, leaf in tree.items():
        if isinstance(leaf, Ragged) and (
            min(leaf.sizes, default=0) < 0 or sum(leaf.sizes) != len(leaf.values)
        ):
            raise BadMessage(f"'{name}' has sizes that do not fit")
    return tree, facts
