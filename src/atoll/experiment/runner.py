"""The run loop: rounds, scores, checkpoints, and an orderly stop."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from scipy import sparse

from atoll.cohort import Cohort
from atoll.errors import AtollError, Interrupted
from atoll.experiment.config import Experiment, read_table, resolve
from atoll.experiment.memory import keep_freed_memory, return_freed_memory
from atoll.experiment.metric import chosen_metric
from atoll.experiment.result import (
    Result,
    Size,
    is_complete,
    load_result,
    new_run_dir,
    store_setup,
)
from atoll.experiment.rounds import Rounds
from atoll.experiment.tables import store_tables
from atoll.experiment.whole_graph import WholeGraph
from atoll.federation.host import Host
from atoll.federation.inprocess import InProcess
from atoll.federation.protocol import Replies
from atoll.graph import Graph
from atoll.methods.base import Info
from atoll.partition.anchors import matched
from atoll.partition.network import client_network
from atoll.rng import server_stream, stream
from atoll.tasks.metrics import RANKING
from atoll.tasks.nodes import NodeClassification
from atoll.tree import Kinds

log = logging.getLogger("atoll")
Progress = Callable[[int, float], None]
_ONE_THREAD_BELOW_NODES = 10_000


def load_whole(experiment: Experiment) -> Graph:
    """The whole graph with its split."""
    rng = server_stream(experiment.run.seed, 0, "split")
    return experiment.split.apply(experiment.data.load(), rng)


def parties_of(experiment: Experiment, whole: Graph) -> list[Graph]:
    """The whole graph, cut: one graph per client."""
    return experiment.partition.cut(whole, partition_rng(experiment))


def partition_rng(experiment: Experiment) -> np.random.Generator:
    """The randomness of the cut: the same for every method with the same seed of the cut."""
    return server_stream(experiment.run.seed_of_cut, 0, "partition")


@dataclass(frozen=True)
class Parties:
    """What an experiment trains on: one graph per client, and what the server knows of them."""

    graphs: list[Graph]
    anchors: tuple[np.ndarray, ...] = ()
    network: sparse.csr_array | None = None


def load_parties(experiment: Experiment) -> Parties:
    """One graph per client; the whole graph for a pooled method."""
    method, whole = experiment.method, load_whole(experiment)
    parts = [whole] if method.pooled else parties_of(experiment, whole)
    coins = (stream(experiment.run.seed, k, 0, "task") for k in range(len(parts)))
    graphs = [method.task.prepare(g, rng) for g, rng in zip(parts, coins, strict=True)]
    for client, graph in enumerate(graphs):
        missing = method.task.missing(graph) if method.needs_labels else ""
        if missing:
            raise AtollError(
                f"client {client} ({graph.nodes} nodes) is left with no {missing}; use fewer "
                f"clients or a larger share for training."
            )
    method.task.settled(graphs)  # refuses a positive class that there is not
    anchors: tuple[np.ndarray, ...] = ()
    if method.needs_anchors:
        graphs, anchors = matched(graphs)
    return Parties(graphs, anchors, client_network(whole, graphs) if method.needs_network else None)


def simulate(experiment: Experiment, parties: Parties) -> tuple[InProcess, Kinds]:
    """A federation of all clients in this process, and the server's first state."""
    dtype = getattr(torch, experiment.run.dtype)
    cohort = Cohort(parties.graphs, dtype=dtype)
    task = experiment.method.task.settled(parties.graphs)
    if isinstance(task, NodeClassification) and experiment.run.metric in RANKING:
        task = replace(task, areas="always")
    method = replace(experiment.method, task=task)
    host = Host(method, cohort, experiment.run.seed, experiment.run.chunk)
    info = Info(
        len(parties.graphs),
        cohort.features,
        cohort.classes,
        dtype,
        parties.anchors,
        parties.network,
    )
    return InProcess(host), experiment.method.start(info, experiment.run.seed)


def run_experiment(
    experiment: Experiment,
    out: Path | None = None,
    progress: Progress | None = None,
    ledger: bool = True,
) -> Result:
    """Run an experiment from its first round and keep it in a run directory.

    Without ``ledger`` the table of every tensor that crossed is not written: with one row per
    tensor, client and round, it can take as long as the rounds themselves. Totals are kept in any
    case.
    """
    parties = load_parties(experiment)
    chosen_metric(experiment, parties.graphs)  # refuses before anything is written
    loop = _Loop(experiment, parties, new_run_dir(experiment, out), progress, ledger)
    store_setup(loop.run_dir, experiment, loop.threads)
    return loop.run()


def read_experiment(run_dir: Path) -> Experiment:
    """The experiment a run directory belongs to."""
    if not (run_dir / "config.toml").is_file():
        raise AtollError(f"'{run_dir}' is no run directory: it has no config.toml; check the path.")
    return resolve(read_table(run_dir / "config.toml"))


def resume(run_dir: Path, progress: Progress | None = None) -> Result:
    """Continue an interrupted run to the result it would have had."""
    return continued(read_experiment(run_dir), run_dir, progress)


def continued(experiment: Experiment, run_dir: Path, progress: Progress | None = None) -> Result:
    """The same for an experiment at hand, which may hold what no config can: a graph in memory."""
    if is_complete(run_dir):
        return load_result(run_dir, experiment)
    loop = _Loop(experiment, load_parties(experiment), run_dir, progress)
    loop.restore()
    return loop.run()


@dataclass
class _Loop:
    experiment: Experiment
    parties: Parties
    run_dir: Path
    progress: Progress | None
    ledger: bool = True

    def __post_init__(self) -> None:
        return_freed_memory()
        keep_freed_memory()
        self.threads = self.experiment.run.threads or _suitable_threads(self.parties.graphs)
        self.fed, state = simulate(self.experiment, self.parties)
        metric, said = chosen_metric(self.experiment, self.parties.graphs)
        if said:
            log.warning("%s", said)
        self.rounds = Rounds(self.experiment, self.fed, self.run_dir, state, metric=metric)
        self.whole: WholeGraph | None = None
        if self.experiment.run.whole_graph:
            whole = load_whole(self.experiment)
            self.whole = WholeGraph(self.experiment.method, whole, self.fed.host.cohort)
            self.rounds.further = self._scored_on_whole_graph

    def restore(self) -> None:
        """Go back to the run's last checkpoint, if it has one."""
        clients = self.rounds.restore()
        if clients is None:
            return
        self.fed.host.state = clients
        if self.whole is not None and self.rounds.history.scores:
            self.whole.catch_up(self.rounds.history)

    def run(self) -> Result:
        saved = time.monotonic()
        with _threads(self.threads), _orderly_interrupt() as interrupted:
            while not self.rounds.over:
                self._round()
                if interrupted():
                    self._save()
                    raise Interrupted(
                        f"interrupted after round {self.rounds.done}; continue with: "
                        f"atoll resume {self.run_dir}"
                    )
                if time.monotonic() - saved > self.experiment.run.checkpoint_seconds:
                    self._save()
                    saved = time.monotonic()
            concluded = self.rounds.conclude()
        store_tables(self.run_dir, self.rounds.history, self.fed.ledger if self.ledger else None)
        sizes = [Size(graph.nodes, int(graph.train.sum())) for graph in self.parties.graphs]
        return self.rounds.store(self.fed.host.state, sizes, concluded)

    def _round(self) -> None:
        val = self.rounds.complete()
        self.rounds.keep_if_best(val, self.fed.host.state)
        if self.progress is not None:
            self.progress(self.rounds.done, val)

    def _save(self) -> None:
        self.rounds.save(self.fed.host.state)

    def _scored_on_whole_graph(self, replies: Replies, last: bool) -> Replies:
        assert self.whole is not None
        return self.whole.added_to(replies, self.fed.host.state, last)


def _suitable_threads(parties: list[Graph]) -> int:
    """Below some ten thousand nodes, waking a second thread costs more than it does."""
    small = sum(graph.nodes for graph in parties) < _ONE_THREAD_BELOW_NODES
    return 1 if small else torch.get_num_threads()


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _orderly_interrupt() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C lets the round finish; a second one stops at once."""
    pressed = False

    def on_interrupt(*_: object) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)
