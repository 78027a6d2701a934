"""Runs as tasks of a Ray cluster.

A task is sent a config, and a graph where there is one that no config can hold, as plain values and
arrays. It works in the run's own folder where its host sees it, so that a run that is cut off goes
on from its checkpoint; elsewhere in a folder of its own, whose files are sent back.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from atoll.comparison.one_run import do_run
from atoll.comparison.plan import Step
from atoll.data.in_memory import InMemory, from_graph
from atoll.errors import AtollError, Interrupted
from atoll.experiment.config import Experiment, describe, resolve
from atoll.federation.cluster import (
    Engine,
    LostWorker,
    connected,
    of_cluster,
    places,
    refuse_other_versions,
    versions,
)
from atoll.files import make_folder, write_bytes
from atoll.graph.plain import Common, GraphsOfPlain, plain_graphs

_SECONDS_BETWEEN_LOOKS = 0.2
DATA = "ATOLL_DATA"
# What marks a run as complete is written last.
_LAST = "summary.json"
At = Callable[[int, int], None]


def do_on_ray(
    steps: Mapping[int, Step],
    out: Path,
    engine: Engine,
    at: At,
    complete: Callable[[int], None],
    level: int,
) -> None:
    """Runs by number, as many at a time as the cluster has room for.

    ``at`` is told how many rounds of a run are done, ``complete`` that it is.
    """
    orders = {number: _order(step, level) for number, step in steps.items()}
    with connected(engine) as ray, seen_from_elsewhere(out) as mark:
        news = ray.remote(num_cpus=0)(News).remote()
        task = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(run_as_task)
        left, waiting = list(steps), dict[Any, int]()
        try:
            while left or waiting:
                limit = engine.workers or places(ray, 1)
                while left and len(waiting) < limit:
                    number = left.pop(0)
                    folder = steps[number].folder(out).absolute()
                    begun = ray.put(_files(folder)) if folder.is_dir() else None
                    sent = (orders[number], mark, str(folder), [begun], number, news)
                    waiting[task.remote(*sent)] = number
                _look(ray, news, waiting, at, complete, lambda n: steps[n].folder(out))
        except BaseException as problem:
            news.stop.remote()  # those at work finish their round and save it
            _let_save(ray, waiting, lambda n: steps[n].folder(out))
            if isinstance(problem, LostWorker):
                raise AtollError(f"{problem} The same command goes on with the rest.") from problem
            raise


def _look(
    ray: Any,
    news: Any,
    waiting: dict[Any, int],
    at: At,
    complete: Callable[[int], None],
    folder: Callable[[int], Path],
) -> None:
    ready, _ = ray.wait(list(waiting), timeout=_SECONDS_BETWEEN_LOOKS)
    with of_cluster():
        for number, round in ray.get(news.taken.remote()).items():
            at(number, round)
        for reference in ready:
            number = waiting.pop(reference)
            theirs, files, interrupted = ray.get(reference)
            refuse_other_versions(theirs)
            _store(folder(number), files)
            if interrupted:
                raise Interrupted("a run was interrupted where it was")
            complete(number)


def _let_save(ray: Any, waiting: Mapping[Any, int], folder: Callable[[int], Path]) -> None:
    for reference, number in waiting.items():
        try:
            with of_cluster():
                _, files, _ = ray.get(reference)
        except Exception:  # the first error is the one to tell
            continue
        _store(folder(number), files)


class News:
    """How far runs are, and whether they are to stop."""

    def __init__(self) -> None:
        self._rounds: dict[int, int] = {}
        self._stopped = False

    def put(self, number: int, round: int) -> bool:
        self._rounds[number] = round
        return self._stopped

    def taken(self) -> dict[int, int]:
        rounds, self._rounds = self._rounds, {}
        return rounds

    def stop(self) -> None:
        self._stopped = True


def run_as_task(
    order: tuple[str, Any],
    mark: tuple[str, str],
    folder: str,
    begun: Sequence[Any],
    number: int,
    news: Any,
) -> tuple[dict[str, str], dict[str, bytes], bool]:
    """A run at a host of the cluster: its versions, the run's files unless they are in place, and
    whether it was interrupted."""
    import ray

    step, level = _step(order)
    logging.getLogger("atoll").setLevel(level)
    told, stopping = 0.0, False

    def progress(round: int, _: float) -> None:
        nonlocal told, stopping
        if time.monotonic() - told < _SECONDS_BETWEEN_LOOKS:
            return
        told = time.monotonic()
        if ray.get(news.put.remote(number, round)) and not stopping:
            stopping = True
            signal.raise_signal(signal.SIGINT)  # the run saves this round and ends

    if ray.get(news.put.remote(number, 0)):
        return versions(), {}, True
    if sees(mark):
        return versions(), {}, _interrupted(step, Path(folder), progress)
    with tempfile.TemporaryDirectory(prefix="atoll-run-") as elsewhere:
        own = Path(elsewhere) / "run"
        if begun[0] is not None:
            _store(own, ray.get(begun[0]))
        interrupted = _interrupted(step, own, progress)
        return versions(), _files(own), interrupted


def _interrupted(step: Step, folder: Path, progress: Callable[[int, float], None]) -> bool:
    try:
        do_run(step, folder, progress)
    except Interrupted:
        return True
    return False


@contextmanager
def seen_from_elsewhere(out: Path) -> Iterator[tuple[str, str]]:
    """A mark in a folder, by which other hosts know whether they see the same folder."""
    make_folder(out)
    path, word = (out / f".seen-{os.getpid()}").absolute(), secrets.token_hex(16)
    path.write_text(word)
    try:
        yield str(path), word
    finally:
        path.unlink(missing_ok=True)


def sees(mark: tuple[str, str]) -> bool:
    path, word = mark
    try:
        return Path(path).read_text() == word
    except OSError:
        return False


def _order(step: Step, level: int) -> tuple[str, Any]:
    """A run as text, and its graph as arrays where no config can hold it."""
    experiment, graph = step.experiment, None
    if isinstance(experiment.data, InMemory):
        graph = plain_graphs([experiment.data.load()], Common([]))[0]
    facts = {
        "label": step.label,
        "seed": step.seed,
        "table": describe(experiment),
        "around": surroundings(),
        "level": level,
    }
    return json.dumps(facts), graph


def surroundings() -> dict[str, Any]:
    """What a run finds its data by, and the threads that its rounding depends on."""
    return {"threads": torch.get_num_threads(), "folder": os.getcwd(), DATA: os.environ.get(DATA)}


def surround(given: Mapping[str, Any]) -> None:
    """The same at another host, as far as the folders are there."""
    torch.set_num_threads(given["threads"])
    if os.path.isdir(given["folder"]):
        os.chdir(given["folder"])
    if given[DATA] and os.path.isdir(given[DATA]):
        os.environ[DATA] = given[DATA]


def _step(order: tuple[str, Any]) -> tuple[Step, int]:
    facts, graph = json.loads(order[0]), order[1]
    surround(facts["around"])
    experiment: Experiment = resolve(facts["table"])
    if graph is not None:
        experiment = replace(experiment, data=from_graph(GraphsOfPlain().graph(graph)))
    return Step(facts["label"], facts["seed"], experiment), facts["level"]


def _files(folder: Path) -> dict[str, bytes]:
    """Every file of a run, by its path within the folder."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def _store(folder: Path, files: Mapping[str, bytes]) -> None:
    for name in sorted(files, key=lambda name: (name == _LAST, name)):
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise AtollError(f"a host of the cluster sent a file '{name}'; it is none of a run.")
        write_bytes(path, files[name])
