"""A simulation whose clients are processes of a Ray cluster."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch

from atoll.archive import pack, unpack
from atoll.cohort import Cohort
from atoll.device import CPU, on_device
from atoll.experiment.config import Experiment, describe, resolve
from atoll.experiment.memory import keep_freed_memory
from atoll.experiment.parties import Parties, info_of, recounted, settled
from atoll.federation.cluster import (
    Engine,
    log,
    of_cluster,
    places,
    refuse_other_versions,
    versions,
)
from atoll.federation.codec import decode_request, step_answer, step_call
from atoll.federation.host import Host
from atoll.federation.workers import Place, Saying, Workers
from atoll.graph import Graph
from atoll.graph.plain import Common, GraphsOfPlain, plain_graphs
from atoll.privacy.averaging import protect
from atoll.privacy.door import guarded
from atoll.tasks.pooled import Listener, listening
from atoll.tree import Kinds, put, stack, take

# Into so many chunks a cohort is cut where nobody says how large they are. The number of processes
# has no say in it, so that it has none in the result.
_CHUNKS = 16
_SECONDS_OF_PATIENCE = 30.0
# What a process needs of an experiment: it is sent its clients' graphs.
_SECTIONS = ("task", "model", "optimizer", "method", "run", "privacy")


def in_chunks(experiment: Experiment, clients: int) -> Experiment:
    """An experiment whose cohort is in chunks, which are what a cluster shares out."""
    if experiment.run.chunk:
        return experiment
    run = replace(experiment.run, chunk=math.ceil(clients / _CHUNKS))
    return replace(experiment, run=run)


def simulate_on_ray(
    experiment: Experiment, parties: Parties, threads: int, ray: Any, engine: Engine
) -> tuple[Workers, Kinds]:
    """A federation of all clients in the cluster, and the server's first state."""
    method = settled(experiment, parties.graphs)
    clients = len(parties.graphs)
    chunk = experiment.run.chunk or clients
    chunks = [range(first, min(first + chunk, clients)) for first in range(0, clients, chunk)]
    room = places(ray, threads)
    count = min(engine.workers or room, room, len(chunks))
    if engine.workers > room:
        log.warning("the cluster has room for %d processes, not %d.", room, engine.workers)
    common = Common(parties.graphs)
    shared = ray.put(common.plain())
    parcels = [ray.put(plain_graphs([parties.graphs[c] for c in part], common)) for part in chunks]
    order = json.dumps(_order(replace(experiment, method=method), threads, chunk))
    actor = ray.remote(num_cpus=threads, scheduling_strategy="SPREAD", max_restarts=0)(Worker)
    shares = _shares(chunks, count)
    found = [Place(actor.remote(), clients_of) for clients_of in shares]
    fed = Workers(ray, found, experiment.run.seed, chunk)
    try:
        begun = [
            p.actor.begin.remote(order, (p.clients.start, p.clients.stop), [shared], parcels)
            for p in found
        ]
        with of_cluster():
            _, late = ray.wait(begun, num_returns=len(begun), timeout=_SECONDS_OF_PATIENCE)
            if late:
                log.warning(
                    "%d of %d processes are waiting for the cluster to have %d free CPUs each.",
                    len(late), len(begun), threads,
                )  # fmt: skip
            for theirs in ray.get(begun):
                refuse_other_versions(theirs)
    except BaseException:
        fed.close()
        raise
    protect(fed, experiment.privacy, method.epochs)
    return fed, experiment.method.start(info_of(experiment, parties), experiment.run.seed)


def _order(experiment: Experiment, threads: int, chunk: int) -> dict[str, Any]:
    table = {name: part for name, part in describe(experiment).items() if name in _SECTIONS}
    return {"table": table, "threads": threads, "chunk": chunk}


def _shares(chunks: Sequence[range], count: int) -> list[range]:
    """Chunks dealt out in order, as evenly as can be: each process has a run of them."""
    ends = [round(len(chunks) * n / count) for n in range(count + 1)]
    runs = [chunks[a:b] for a, b in pairwise(ends)]
    return [range(run[0].start, run[-1].stop) for run in runs]


class Worker:
    """A process that holds some clients. All it is sent and sends is bytes, arrays and numbers."""

    def begin(
        self, order: str, clients: tuple[int, int], common: list[Any], parcels: list[Any]
    ) -> dict[str, str]:
        """Pack the clients' graphs and have them join."""
        import ray

        given = json.loads(order)
        torch.set_num_threads(given["threads"])
        keep_freed_memory()
        self.saying = Saying()
        logging.getLogger("atoll").addHandler(self.saying)
        self.experiment = resolve(given["table"])
        self.dtype = getattr(torch, self.experiment.run.dtype)
        if self.experiment.run.device != CPU:
            with on_device(self.experiment.run.device):  # refused where there is none
                torch.set_default_device(self.experiment.run.device)
        self.chunk = given["chunk"]
        self._parcels, self._fetched = parcels, {}  # type: ignore[var-annotated]
        self._graphs = GraphsOfPlain(ray.get(common[0]))
        self._heard: dict[tuple[str, tuple[int, ...]], Listener] = {}
        self._round = 0
        own = range(*clients)
        cohort = Cohort([self._graph(c) for c in own], own, self.dtype)
        self.method = guarded(self.experiment.method, self.experiment.privacy)
        self.host = Host(self.method, cohort, self.experiment.run.seed, self.chunk)
        self.host.hold_all()
        self._place = {client: n for n, client in enumerate(own)}
        return versions()

    def perform(self, message: bytes, rows: bytes, part: tuple[int, ...], listen: bool) -> bytes:
        """A step for some of the clients that are at home here."""
        return self._performed(self.host, message, rows, part, listen)

    def lend(self, clients: list[int]) -> bytes:
        """The states of some clients, for a step elsewhere."""
        return pack(take(self.host.state, [self._place[c] for c in clients]), {})

    def visited(
        self,
        message: bytes,
        rows: bytes,
        part: tuple[int, ...],
        listen: bool,
        order: list[int],
        *states: bytes,
    ) -> tuple[bytes, bytes]:
        """A step for clients of several homes, whose states come in ``order``, and go back."""
        lent = stack([unpack(state)[0] for state in states])
        state = take(lent, [order.index(client) for client in part])
        cohort = Cohort([self._graph(client) for client in part], part, self.dtype)
        host = Host(self.method, cohort, self.experiment.run.seed, 0, state)
        answer = self._performed(host, message, rows, part, listen)
        return answer, pack(host.state, {})

    def take_back(self, clients: list[int], part: tuple[int, ...], state: bytes) -> None:
        """The states of clients after a step elsewhere."""
        theirs = take(unpack(state)[0], [part.index(client) for client in clients])
        where = [self._place[client] for client in clients]
        self.host.state = put(self.host.state, where, theirs, self.host.cohort.k)

    def overheard(self, request: str, part: tuple[int, ...]) -> tuple[list[Any], bool]:
        """What was scored of some clients in a step of this round, as arrays."""
        listener = self._heard[request, part]
        return [(c, scored.plain()) for c, scored in listener.heard.items()], listener.twice

    def state(self) -> bytes:
        """All of the clients' states."""
        return pack(self.host.state, {})

    def restore(self, state: bytes, releases: Mapping[int, int]) -> None:
        """The clients' states as they were before."""
        self.host.state = unpack(state)[0]
        recounted(self.host, releases)

    def _performed(
        self, host: Host, message: bytes, rows: bytes, part: tuple[int, ...], listen: bool
    ) -> bytes:
        request = decode_request(message)
        call, _ = step_call(request)
        if call.round != self._round:
            self._round = call.round
            self._heard.clear()
        with listening() as listener:
            [batch] = host.perform(call, part, unpack(rows)[0])
        if listen:
            self._heard[request.id, part] = listener
        return replace(step_answer(request, batch), facts={"said": self.saying.taken()}).encode()

    def _graph(self, client: int) -> Graph:
        import ray

        number, row = divmod(client, self.chunk)
        if number not in self._fetched:
            plain = ray.get(self._parcels[number])
            self._fetched[number] = [self._graphs.graph(one) for one in plain]
        found: Graph = self._fetched[number][row]
        return found
