"""Doing many runs, one after the other or in processes, and watching them."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

from atoll.comparison.on_ray import do_on_ray
from atoll.comparison.one_run import do_run
from atoll.comparison.plan import Step
from atoll.errors import AtollError, Interrupted
from atoll.experiment.run_dir import is_complete
from atoll.federation.cluster import HERE, Engine

# Rounds done, rounds in all, and a note: what is under way.
Watch = Callable[[int, int, str], None]
_SECONDS_BETWEEN_LOOKS = 0.2


@dataclass
class Board:
    """How far all runs are together; a run that ends early counts as whole."""

    steps: Sequence[Step]
    watch: Watch | None
    done: dict[int, int] = field(default_factory=dict)
    finished: int = 0

    def complete(self, number: int) -> None:
        self.finished += 1
        self.at(number, self.steps[number].experiment.run.rounds)

    def at(self, number: int, round: int) -> None:
        self.done[number] = round
        if self.watch is not None:
            total = sum(step.experiment.run.rounds for step in self.steps)
            step = self.steps[number]
            note = f"{self.finished} of {len(self.steps)} runs; {step.label}, seed {step.seed}"
            self.watch(sum(self.done.values()), total, note)


def do_runs(
    steps: Sequence[Step],
    out: Path,
    jobs: int,
    watch: Watch | None,
    whole: Path | None = None,
    quiet: bool = False,
    engine: Engine = HERE,
) -> None:
    """Every run that is not complete, from where it was left; ``jobs`` at a time.

    ``whole`` is what can be resumed after an interruption, where that is not ``out`` itself. With
    ``quiet`` nothing is said of single runs, but for errors. On a cluster, ``engine`` says how
    many at a time.
    """
    done = {n: s.experiment.run.rounds for n, s in enumerate(steps) if is_complete(s.folder(out))}
    left = [number for number in range(len(steps)) if number not in done]
    board = Board(steps, watch, done, len(done))
    try:
        with saying(quiet) as level:
            if engine.is_ray and left:
                own = {number: steps[number] for number in left}
                do_on_ray(own, out, engine, board.at, board.complete, level)
            elif jobs == 1 or len(left) < 2:
                for number in left:
                    step = steps[number]
                    do_run(step, step.folder(out), lambda r, _, n=number: board.at(n, r))  # type: ignore[misc]
                    board.complete(number)
            else:
                _in_processes(left, out, jobs, board, level)
    except (Interrupted, KeyboardInterrupt):
        raise Interrupted(
            f"interrupted with {board.finished} of {len(steps)} runs complete; continue with: "
            f"atoll resume {whole or out}"
        ) from None


@contextmanager
def saying(quiet: bool) -> Iterator[int]:
    """The least that is logged meanwhile; what several runs say is logged once."""
    log, once = logging.getLogger("atoll"), _Once()
    before = log.level
    handlers = [*logging.getLogger().handlers, *log.handlers]
    if logging.lastResort is not None:
        handlers.append(logging.lastResort)
    if quiet:
        log.setLevel(logging.ERROR)
    for handler in handlers:
        handler.addFilter(once)
    try:
        yield log.level
    finally:
        log.setLevel(before)
        for handler in handlers:
            handler.removeFilter(once)


class _Once(logging.Filter):
    """Lets a sentence pass the first time."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, logging.LogRecord] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        # Several handlers may be given the same record.
        return self._said.setdefault(record.getMessage(), record) is record


class _Sent(logging.Handler):
    """What a process of its own logs is logged by the first process."""

    def emit(self, record: logging.LogRecord) -> None:
        _here["news"].put((record.name, record.levelno, record.getMessage()))


def _in_processes(left: Sequence[int], out: Path, jobs: int, board: Board, level: int) -> None:
    parcels = {number: _packed(board.steps[number]) for number in left}
    context = get_context("spawn")
    news, stop = context.Queue(), context.Event()
    pool = ProcessPoolExecutor(
        min(jobs, len(left)), context, initializer=_enter, initargs=(news, stop, level)
    )
    with pool:
        with _unheard_interrupt():  # processes inherit it
            waiting = {pool.submit(_do_packed, n, parcel, out): n for n, parcel in parcels.items()}
        try:
            _follow(waiting, news, board)
        except BaseException as problem:
            stop.set()  # those at work finish their round and save it
            pool.shutdown(wait=True, cancel_futures=True)
            _hear(news, board)
            if isinstance(problem, BrokenProcessPool):
                raise AtollError(
                    "a process of its own ended before its work did; take one job at a time, or, "
                    "in a script, call Atoll below: if __name__ == '__main__'."
                ) from problem
            raise
    _hear(news, board)


def _follow(waiting: dict[Future[None], int], news: Any, board: Board) -> None:
    """Until all is done, or the first error."""
    left = set(waiting)
    while left:
        ready, left = wait(left, timeout=_SECONDS_BETWEEN_LOOKS)
        _hear(news, board)
        for future in ready:
            future.result()
            board.complete(waiting[future])


def _hear(news: Any, board: Board) -> None:
    """Rounds that are done, and what the processes have to say."""
    while not news.empty():
        match news.get():
            case (int(number), int(round)):
                board.at(number, round)
            case (str(name), int(level), str(said)):
                logging.getLogger(name).log(level, "%s", said)


def _packed(step: Step) -> bytes:
    try:
        return pickle.dumps(step)
    except (pickle.PicklingError, AttributeError, TypeError) as problem:
        raise AtollError(
            f"{step.label} can't be handed to another process ({problem}); take one job at a time."
        ) from problem


_here: dict[str, Any] = {}


def _enter(news: Any, stop: Any, level: int) -> None:
    """A process of its own group, so that Ctrl-C reaches the first process alone, which sets
    ``stop``. Without the first process nobody waits for this one's work, and it ends."""
    if hasattr(os, "setpgrp"):
        os.setpgrp()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _here.update(news=news, stop=stop)
    log = logging.getLogger("atoll")
    log.setLevel(level)
    log.addHandler(_Sent())
    log.propagate = False


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _unheard_interrupt() -> Iterator[None]:
    """Ctrl-C is not heard: a process that is only starting would answer with a traceback."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _do_packed(number: int, parcel: bytes, out: Path) -> None:
    said = False

    def progress(round: int, _: float) -> None:
        nonlocal said
        _here["news"].put((number, round))
        if _here["stop"].is_set() and not said:
            said = True
            signal.raise_signal(signal.SIGINT)  # the run saves this round and ends

    if not _here["stop"].is_set():
        step: Step = pickle.loads(parcel)
        do_run(step, step.folder(out), progress)
