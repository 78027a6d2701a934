"""Messages as bytes: safetensors with a small JSON header. Never a pickle."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import safetensors
from safetensors.torch import load, save

from atoll.errors import AtollError
from atoll.federation.host import Host
from atoll.federation.protocol import Call, Federation
from atoll.federation.validation import Batch
from atoll.tree import Ragged, Tree, flatten, take, unflatten


def encode(header: dict[str, str | int], tree: Tree) -> bytes:
    """A tree and a few plain facts as one message."""
    return save(flatten(tree), metadata={"atoll": json.dumps(header)})


def decode(message: bytes) -> tuple[dict[str, str | int], Tree]:
    """The inverse of :func:`encode`; a damaged message is an error, never code that runs."""
    try:
        size = int.from_bytes(message[:8], "little")
        header = json.loads(json.loads(message[8 : 8 + size])["__metadata__"]["atoll"])
        return header, unflatten(load(message))
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as problem:
        raise AtollError(f"a message can't be read ({problem}); it is damaged.") from problem


def encode_call(call: Call, row: Tree) -> bytes:
    """A request to one client: what all get, and the row that is its own."""
    header: dict[str, str | int] = {"step": call.step, "round": call.round, "nth": call.nth}
    shared = {f"shared/{name}": leaf for name, leaf in call.shared.items()}
    return encode(header, shared | {f"each/{name}": leaf for name, leaf in row.items()})


def decode_call(message: bytes) -> tuple[Call, Tree]:
    header, tree = decode(message)
    call = Call(
        str(header["step"]), int(header["round"]), int(header["nth"]), _part(tree, "shared")
    )
    return call, _part(tree, "each")


def _part(tree: Tree, prefix: str) -> Tree:
    start = prefix + "/"
    return {name[len(start) :]: leaf for name, leaf in tree.items() if name.startswith(start)}


def answer(host: Host, message: bytes) -> bytes:
    """What a site does with a request: bytes in, bytes out."""
    call, row = decode_call(message)
    [batch] = host.perform(call, host.cohort.clients, row)
    tree: Tree = {f"body/{name}": leaf for name, leaf in batch.body.items()}
    if batch.weight is not None:
        tree["weight"] = batch.weight
    return encode({}, tree)


class Loopback(Federation):
    """One host a client, every message through bytes: a deployment without the network."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        super().__init__([host.cohort.clients[0] for host in hosts], hosts[0].seed)
        self.hosts = {host.cohort.clients[0]: host for host in hosts}

    def deliver(self, call: Call, to: tuple[int, ...], each: Tree) -> Iterator[Batch]:
        for i, client in enumerate(to):
            reply = answer(self.hosts[client], encode_call(call, take(each, [i])))
            _, tree = decode(reply)
            weight = tree.get("weight")
            if isinstance(weight, Ragged):
                raise AtollError(f"client {client} sent a ragged weight; it must be one number.")
            yield Batch((client,), _part(tree, "body"), weight)
