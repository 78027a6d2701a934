"""The run loop: rounds, scores, checkpoints, and an orderly stop."""

from __future__ import annotations

import gc
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from atoll.cohort import Cohort
from atoll.device import on_device
from atoll.errors import AtollError, Interrupted
from atoll.experiment.best import by_kind
from atoll.experiment.callbacks import Callback, Callbacks
from atoll.experiment.config import Experiment, read_table, resolve
from atoll.experiment.embeddings import Scores, cluster_scores
from atoll.experiment.memory import keep_freed_memory, return_freed_memory
from atoll.experiment.metric import chosen_metric
from atoll.experiment.on_ray import in_chunks, simulate_on_ray
from atoll.experiment.parties import Parties as Parties
from atoll.experiment.parties import load_parties as load_parties
from atoll.experiment.parties import load_whole as load_whole
from atoll.experiment.parties import parties_of as parties_of
from atoll.experiment.parties import partition_rng as partition_rng
from atoll.experiment.parties import recounted
from atoll.experiment.parties import simulate as simulate
from atoll.experiment.parties import site_names as site_names
from atoll.experiment.protected import refuse_in_vain
from atoll.experiment.result import Result, Size, load_result
from atoll.experiment.rounds import Rounds
from atoll.experiment.run_dir import (
    is_complete,
    new_run_dir,
    refuse_no_run,
    store_fitted,
    store_setup,
)
from atoll.experiment.tables import store_progress, store_tables
from atoll.experiment.threads import suitable_threads, threads
from atoll.experiment.whole_graph import WholeGraph
from atoll.federation.calls import Replies
from atoll.federation.cluster import HERE, Engine, LostWorker, connected
from atoll.federation.inprocess import InProcess
from atoll.federation.workers import Workers
from atoll.files import clear_leftovers, held
from atoll.tree import Kinds, kind

log = logging.getLogger("atoll")
Progress = Callable[[int, float], None]
_SECONDS_BETWEEN_TABLES = 3.0
# Processes of a cluster that may be lost before a run gives up, without a checkpoint in between.
_MOST_LOSSES = 3


def run_experiment(
    experiment: Experiment,
    out: Path | None = None,
    progress: Progress | None = None,
    ledger: bool = True,
    callbacks: Sequence[Callback] = (),
    engine: Engine = HERE,
) -> Result:
    """Run an experiment from its first round and keep it in a run directory.

    Without ``ledger`` the table of every tensor that crossed is not written: with one row per
    tensor, client and round, it can take as long as the rounds themselves. Totals are kept in any
    case. ``callbacks`` are told how it goes. ``engine`` is where the clients are, which changes
    nothing but the time it takes.
    """
    parties = load_parties(experiment)
    if engine.is_ray:
        experiment = in_chunks(experiment, len(parties.graphs))
    refuse_in_vain(experiment, len(parties.graphs))
    chosen_metric(experiment, parties.graphs)  # refuses before anything is written
    run_dir = new_run_dir(experiment, out)
    with held(run_dir), _cluster(engine) as ray, on_device(experiment.run.device):
        loop = _Loop(experiment, parties, run_dir, progress, ledger, callbacks, engine, ray)
        store_setup(run_dir, experiment, loop.threads, parties.names)
        store_fitted(run_dir, experiment, parties.train)
        return loop.run()


def read_experiment(run_dir: Path) -> Experiment:
    """The experiment a run directory belongs to."""
    refuse_no_run(run_dir)
    return resolve(read_table(run_dir / "config.toml"))


def resume(
    run_dir: Path,
    progress: Progress | None = None,
    callbacks: Sequence[Callback] = (),
    engine: Engine = HERE,
) -> Result:
    """Continue an interrupted run to the result it would have had, on any engine."""
    return continued(read_experiment(run_dir), run_dir, progress, callbacks, engine)


def continued(
    experiment: Experiment,
    run_dir: Path,
    progress: Progress | None = None,
    callbacks: Sequence[Callback] = (),
    engine: Engine = HERE,
) -> Result:
    """The same for an experiment at hand, which may hold what no config can: a graph in memory."""
    if is_complete(run_dir):
        return load_result(run_dir, experiment)
    parties = load_parties(experiment)
    with held(run_dir), _cluster(engine) as ray, on_device(experiment.run.device):
        clear_leftovers(run_dir)
        loop = _Loop(
            experiment, parties, run_dir, progress, callbacks=callbacks, engine=engine, ray=ray
        )
        loop.restore()
        return loop.run()


@dataclass
class _Loop:
    experiment: Experiment
    parties: Parties
    run_dir: Path
    progress: Progress | None
    ledger: bool = True
    callbacks: Sequence[Callback] = ()
    engine: Engine = HERE
    ray: Any = None

    def __post_init__(self) -> None:
        self.told = Callbacks(self.callbacks)
        return_freed_memory()
        keep_freed_memory()
        self.threads = self.experiment.run.threads or suitable_threads(self.parties.graphs)
        self.metric, said = chosen_metric(self.experiment, self.parties.graphs)
        if said:
            log.warning("%s", said)
        # Processes of the cluster that were lost since the last round that was completed anew.
        self.losses = 0
        self._begin()

    def _begin(self) -> None:
        """The federation before its first round."""
        self.fed, state = self._federation()
        self.rounds = Rounds(self.experiment, self.fed, self.run_dir, state, metric=self.metric)
        self.whole: WholeGraph | None = None
        if self.experiment.run.whole_graph:
            whole = load_whole(self.experiment)
            clients = Cohort(self.parties.graphs, dtype=getattr(torch, self.experiment.run.dtype))
            self.whole = WholeGraph(self.experiment.method, whole, clients)
            self.rounds.further = self._scored_on_whole_graph

    def _federation(self) -> tuple[InProcess | Workers, Kinds]:
        if not self.engine.is_ray:
            return simulate(self.experiment, self.parties)
        return simulate_on_ray(self.experiment, self.parties, self.threads, self.ray, self.engine)

    def restore(self) -> None:
        """Go back to the run's last checkpoint, if it has one."""
        clients = self.rounds.restore()
        if clients is None:
            return
        if isinstance(self.fed, InProcess):
            self.fed.host.state = clients
            recounted(self.fed.host, self.fed.releases)
        else:
            self.fed.restore(clients, self.fed.releases)
        if self.whole is not None and self.rounds.history.scores:
            self.whole.catch_up(self.rounds.history)

    def run(self) -> Result:
        """All rounds that are left; callbacks hear of the end also where there is no result."""
        result: Result | None = None
        self.told.start(self.experiment, self.run_dir)
        try:
            result = self._run()
        finally:
            self.told.end(result)
        return result

    def _run(self) -> Result:
        sharing = threads(self.threads, self.parties.graphs)
        with sharing, _settled_objects(), _orderly_interrupt() as interrupted:
            try:
                return self._past_losses(interrupted)
            finally:
                self.fed.close()

    def _past_losses(self, interrupted: Callable[[], bool]) -> Result:
        """To the end, also where a process of a cluster is lost on the way."""
        lost: LostWorker | None = None
        while True:
            try:
                if lost is not None:
                    self._begin_anew(lost)
                return self._to_the_end(interrupted)
            except LostWorker as problem:
                lost = problem

    def _to_the_end(self, interrupted: Callable[[], bool]) -> Result:
        saved = shown = time.monotonic()
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
                saved = shown = time.monotonic()
            elif time.monotonic() - shown > _SECONDS_BETWEEN_TABLES:
                store_progress(self.run_dir, self.rounds.history)
                shown = time.monotonic()
        concluded = self.rounds.conclude()
        store_tables(self.run_dir, self.rounds.history, self.fed.ledger if self.ledger else None)
        sizes = [Size(graph.nodes, int(graph.train.sum())) for graph in self.parties.graphs]
        return_freed_memory()  # what was heard lay in pieces that no stack of models fits into
        models = self.fed.kept(lambda name: kind(name) == "model")
        return self.rounds.store(models, sizes, concluded, self._cluster_scores())

    def _cluster_scores(self) -> list[Scores]:
        """Of the best models' embeddings, if they are asked for and everybody's are here."""
        if not self.experiment.run.cluster_scores:
            return []
        models = by_kind(self.rounds.best.tree, len(self.parties.graphs))
        if models is None:
            log.warning("clusters are not scored: only models of clients who took part are kept.")
            return []
        return cluster_scores(self.experiment, models, self.parties.graphs)

    def _begin_anew(self, problem: LostWorker) -> None:
        """From the last checkpoint, as a resumed run does, which gives the same result."""
        self.losses += 1
        if self.losses > _MOST_LOSSES:
            raise AtollError(
                f"{problem} It happened {self.losses} times in a row; see that the hosts have the "
                f"memory, then continue with: atoll resume {self.run_dir}"
            ) from problem
        self.fed.close()
        self._begin()
        self.restore()
        log.warning("%s The run goes on from round %d.", problem, self.rounds.done + 1)

    def _round(self) -> None:
        val = self.rounds.complete()
        self.told.round(self.rounds.history)
        if val == val:  # a round that was not scored has no best models
            self.rounds.keep_if_best(val, self.fed.kept)
        if self.progress is not None:
            self.progress(self.rounds.done, val)

    def _save(self) -> None:
        self.rounds.save(self.fed.state)
        self.losses = 0

    def _scored_on_whole_graph(self, replies: Replies, last: bool) -> Replies:
        assert self.whole is not None
        return self.whole.added_to(replies, self.fed.whole_state(), last)


def _cluster(engine: Engine) -> AbstractContextManager[Any]:
    return connected(engine) if engine.is_ray else nullcontext()


@contextmanager
def _settled_objects() -> Iterator[None]:
    """What is there before the first round stays: no search for garbage need look at it."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def _orderly_interrupt() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C or TERM lets the round finish; a second one stops at once."""
    pressed = False

    def on_interrupt(*_: object) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {n: signal.signal(n, on_interrupt) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: pressed
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
