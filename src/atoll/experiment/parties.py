"""From an experiment to its parties, and to a federation of them in one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy import sparse

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.experiment.config import Experiment
from atoll.experiment.memory import return_freed_memory
from atoll.experiment.own_spaces import refuse_shared_spaces
from atoll.federation.host import Host
from atoll.federation.inprocess import InProcess
from atoll.graph import Graph
from atoll.methods.base import Info, Method
from atoll.partition.anchors import matched
from atoll.partition.network import client_network
from atoll.privacy.averaging import protect
from atoll.privacy.door import Door, guarded
from atoll.rng import server_stream, streams
from atoll.tasks.metrics import RANKING
from atoll.tasks.nodes import Classification
from atoll.tree import Kinds


def load_whole(experiment: Experiment) -> Graph:
    """The whole graph with its split."""
    rng = server_stream(experiment.run.seed, 0, "split")
    return experiment.data.fitted(experiment.split.apply(experiment.data.load(), rng))


def parties_of(experiment: Experiment, whole: Graph) -> list[Graph]:
    """The whole graph, cut: one graph per client."""
    return experiment.partition.cut(whole, partition_rng(experiment))


def site_names(whole: Graph, parties: Sequence[Graph]) -> tuple[str, ...]:
    """What clients are called: after their owner or folder, else ``client 3``."""
    names: dict[str, None] = {}
    for number, graph in enumerate(parties):
        own = graph.name.removeprefix(whole.name).strip()
        names[own if own and own not in names else f"client {number}"] = None
    return tuple(names)


def partition_rng(experiment: Experiment) -> np.random.Generator:
    """The randomness of the cut: the same for every method with the same seed of the cut."""
    return server_stream(experiment.run.seed_of_cut, 0, "partition")


@dataclass(frozen=True)
class Parties:
    """What an experiment trains on: one graph per client, and what the server knows of them."""

    graphs: list[Graph]
    anchors: tuple[np.ndarray, ...] = ()
    network: sparse.csr_array | None = None
    # The training nodes of the whole graph [n].
    train: np.ndarray | None = None
    names: tuple[str, ...] = ()


def load_parties(experiment: Experiment) -> Parties:
    """One graph per client; the whole graph for a pooled method."""
    method, whole = experiment.method, load_whole(experiment)
    parts = [whole] if method.pooled else parties_of(experiment, whole)
    coins = streams((experiment.run.seed, k, 0, "task") for k in range(len(parts)))
    graphs = [method.task.prepare(g, rng) for g, rng in zip(parts, coins, strict=True)]
    stress, seed = experiment.stress, experiment.run.seed
    # Once the task has hidden what is tested on, so that this is never touched.
    graphs = [stress.pooled(graphs[0], seed)] if method.pooled else stress.on(graphs, seed)
    for client, graph in enumerate(graphs):
        missing = method.task.missing(graph) if method.needs_labels else ""
        if missing:
            raise AtollError(
                f"client {client} ({graph.nodes} nodes) is left with no {missing}; use fewer "
                f"clients or a larger share for training."
            )
    refuse_shared_spaces(method, graphs)
    method.task.settled(graphs)  # refuses a positive class that there is not
    anchors: tuple[np.ndarray, ...] = ()
    if method.needs_anchors:
        graphs, anchors = matched(graphs)
    network = client_network(whole, graphs) if method.needs_network else None
    names = () if method.pooled else site_names(whole, parts)
    return Parties(graphs, anchors, network, whole.train, names)


def simulate(experiment: Experiment, parties: Parties) -> tuple[InProcess, Kinds]:
    """A federation of all clients in this process, and the server's first state."""
    dtype = getattr(torch, experiment.run.dtype)
    cohort = Cohort(parties.graphs, dtype=dtype)
    method = settled(experiment, parties.graphs)
    behind = guarded(method, experiment.privacy)
    host = Host(behind, cohort, experiment.run.seed, experiment.run.chunk)
    host.after_chunk = return_freed_memory
    fed = InProcess(host)
    protect(fed, experiment.privacy, method.epochs)
    return fed, experiment.method.start(info_of(experiment, parties), experiment.run.seed)


def settled(experiment: Experiment, graphs: Sequence[Graph]) -> Method:
    """The method with its task as these graphs and the run's metric call for it."""
    task = experiment.method.task.settled(graphs)
    if isinstance(task, Classification) and experiment.run.metric in RANKING:
        task = replace(task, areas="always")
    return replace(experiment.method, task=task)


def info_of(experiment: Experiment, parties: Parties) -> Info:
    """What the server knows of the federation before it starts."""
    first, dtype = parties.graphs[0], getattr(torch, experiment.run.dtype)
    count = len(parties.graphs)
    return Info(count, first.features, first.classes, dtype, parties.anchors, parties.network)


def recounted(host: Host, releases: Mapping[int, int]) -> None:
    """Let clients that go on know what they have released before."""
    if isinstance(host.method, Door):
        host.method.spending.counts.update(releases)
