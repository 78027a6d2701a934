"""An engine that sends every call and reply through bytes: a deployment without the network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from atoll.federation.calls import Call
from atoll.federation.codec import (
    decode_answer,
    decode_request,
    step_answer,
    step_batch,
    step_call,
    step_request,
)
from atoll.federation.host import Host
from atoll.federation.protocol import Federation
from atoll.federation.validation import Batch
from atoll.tree import Tree, take


class Loopback(Federation):
    """One host per client, in this process."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        super().__init__([host.cohort.clients[0] for host in hosts], hosts[0].seed)
        self.hosts = {host.cohort.clients[0]: host for host in hosts}

    def deliver(self, call: Call, to: tuple[int, ...], each: Tree) -> Iterator[Batch]:
        for i, client in enumerate(to):
            message = step_request(call, take(each, [i])).encode()
            reply = self._answered(self.hosts[client], message)
            yield step_batch(client, decode_answer(reply))

    def _answered(self, host: Host, message: bytes) -> bytes:
        """What a site does with a step: bytes in, bytes out."""
        request = decode_request(message)
        call, row = step_call(request)
        [batch] = host.perform(call, host.cohort.clients, row)
        return step_answer(request, batch).encode()
