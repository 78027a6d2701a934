"""The messages of a run, kept as they crossed; off unless asked for, since they tell a lot.

One file per round, ``messages/round-000001.safetensors``: every request with what all clients got
and what each of them got, and every reply. What the files tell can be measured:
:mod:`atoll.privacy.attacks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from atoll.archive import read_tree, write_tree
from atoll.errors import AtollError
from atoll.federation.ledger import Verb
from atoll.files import PRIVATE, damaged
from atoll.tree import Leaf, Tree, copy, prefixed, subtree, take

FOLDER = "messages"


@dataclass(frozen=True)
class Message:
    """What crossed in one request: ``shared`` to all ``clients``; ``rows`` have one row of each.

    ``up`` says that they are replies, which have no ``shared``.
    """

    round: int
    step: str
    nth: int
    verb: Verb
    up: bool
    clients: tuple[int, ...]
    shared: Tree
    rows: Tree

    def of(self, client: int) -> Tree:
        """What crossed between the server and one client; its own leaves lead with an axis of 1."""
        row = take(self.rows, [self.clients.index(client)])
        whole = {n: leaf[None] for n, leaf in self.shared.items() if isinstance(leaf, Tensor)}
        return whole | row


@dataclass
class Messages:
    """Of one round, until they are stored."""

    kept: list[Message] = field(default_factory=list)

    def add(
        self,
        call: tuple[int, str, int, Verb],
        up: bool,
        clients: tuple[int, ...],
        shared: Mapping[str, Leaf],
        rows: Mapping[str, Leaf],
    ) -> None:
        """Copies: what is sent may be the memory of a model that goes on being trained."""
        self.kept.append(Message(*call, up, clients, copy(shared), copy(rows)))

    def store(self, run_dir: Path, name: str) -> None:
        """Everything since the last time, as one file; a round that is repeated replaces it."""
        tree: Tree = {}
        facts: list[dict[str, Any]] = []
        for number, message in enumerate(self.kept):
            tree |= prefixed(f"{number}/shared", message.shared)
            tree |= prefixed(f"{number}/rows", message.rows)
            facts.append(
                {
                    "round": message.round,
                    "step": message.step,
                    "nth": message.nth,
                    "verb": message.verb,
                    "up": message.up,
                    "clients": list(message.clients),
                }
            )
        write_tree(run_dir / FOLDER / f"{name}.safetensors", tree, {"messages": facts}, PRIVATE)
        self.kept = []


def read_messages(run_dir: Path) -> list[Message]:
    """All messages that a run has kept, in their order."""
    files = sorted((run_dir / FOLDER).glob("*.safetensors"))
    if not files:
        raise AtollError(
            f"'{run_dir}' has kept no messages; run it with: --set run.keep_messages=true"
        )
    found: list[Message] = []
    for file in files:
        tree, facts = read_tree(file)
        try:
            for number, said in enumerate(facts["messages"]):
                own = subtree(tree, str(number))
                found.append(
                    Message(
                        int(said["round"]),
                        str(said["step"]),
                        int(said["nth"]),
                        "sum" if said["verb"] == "sum" else "ask",
                        bool(said["up"]),
                        tuple(int(client) for client in said["clients"]),
                        subtree(own, "shared"),
                        subtree(own, "rows"),
                    )
                )
        except (KeyError, TypeError, ValueError) as problem:
            raise damaged(file, problem) from problem
    return sorted(found, key=lambda message: message.round)
