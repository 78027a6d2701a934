"""Messages as bytes, and an engine that sends everything through them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from atoll.archive import Unreadable, pack, unpack
from atoll.errors import AtollError
from atoll.federation.host import Host
from atoll.federation.protocol import Call, Federation
from atoll.federation.validation import Batch
from atoll.tree import Ragged, Tree, prefixed, subtree, take


def decode(message: bytes) -> tuple[Tree, dict[str, Any]]:
    """A message's tree and facts; a damaged message is an error, never code that runs."""
    try:
        return unpack(message)
    except Unreadable as problem:
        raise AtollError(f"a message can't be read ({problem}); it is damaged.") from problem


def encode_call(call: Call, row: Tree) -> bytes:
    """A request to one client: what all get, and the row that is its own."""
    facts = {"step": call.step, "round": call.round, "nth": call.nth}
    return pack(prefixed("shared", call.shared) | prefixed("each", row), facts)


def decode_call(message: bytes) -> tuple[Call, Tree]:
    tree, facts = decode(message)
    call = Call(str(facts["step"]), int(facts["round"]), int(facts["nth"]), subtree(tree, "shared"))
    return call, subtree(tree, "each")


def answer(host: Host, message: bytes) -> bytes:
    """What a site does with a request: bytes in, bytes out."""
    call, row = decode_call(message)
    [batch] = host.perform(call, host.cohort.clients, row)
    tree = prefixed("body", batch.body)
    if batch.weight is not None:
        tree["weight"] = batch.weight
    return pack(tree, {})


class Loopback(Federation):
    """One host a client, every message through bytes: a deployment without the network."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        super().__init__([host.cohort.clients[0] for host in hosts], hosts[0].seed)
        self.hosts = {host.cohort.clients[0]: host for host in hosts}

    def deliver(self, call: Call, to: tuple[int, ...], each: Tree) -> Iterator[Batch]:
        for i, client in enumerate(to):
            reply = answer(self.hosts[client], encode_call(call, take(each, [i])))
            tree, _ = decode(reply)
            weight = tree.get("weight")
            if isinstance(weight, Ragged):
                raise AtollError(f"client {client} sent a ragged weight; it must be one number.")
            yield Batch((client,), subtree(tree, "body"), weight)
