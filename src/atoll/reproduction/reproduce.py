"""Running the cells of a recipe."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from atoll.comparison.on_ray import seen_from_elsewhere, sees, surround, surroundings
from atoll.comparison.statistics import mean
from atoll.errors import AtollError, Interrupted
from atoll.experiment.config import describe, resolve
from atoll.experiment.run_dir import environment
from atoll.federation.cluster import (
    HERE,
    Engine,
    connected,
    of_cluster,
    refuse_other_versions,
    versions,
)
from atoll.reproduction.cells import Cell
from atoll.reproduction.kept_runs import kept
from atoll.reproduction.recipe import Recipe, Target, load_recipe
from atoll.reproduction.results import cells_of, load_cells, store_cells, text_of
from atoll.reproduction.search import chosen_for
from atoll.reproduction.source import source
from atoll.reproduction.studies.base import Findings, studies

_COSTS = ("bytes_up", "bytes_down", "seconds")


def not_kept(recipe: Recipe, targets: Sequence[Target], seeds: int, out: Path) -> list[Target]:
    """The cells that are not kept with as many seeds and the settings of now."""
    there = load_cells(out, recipe)

    def is_kept(target: Target) -> bool:
        cell = there.get((target.row, target.column))
        return cell is not None and len(cell.values) >= seeds and cell.is_current

    return [target for target in targets if not is_kept(target)]


def run_cells(
    recipe: Recipe,
    targets: Sequence[Target],
    seeds: int,
    out: Path,
    jobs: int = 1,
    runs: Path | None = None,
    engine: Engine = HERE,
) -> Iterator[Cell | Failed]:
    """Run cells, ``jobs`` at a time, or as many as a cluster has room for.

    Each is kept in ``out`` as soon as it is done.
    Single runs are kept in the folder ``runs``, if there is one, and looked for there. A cell that
    can't be run does not keep the others from it.
    """
    for cell in _cells(recipe, targets, seeds, jobs, runs, engine):
        if isinstance(cell, Cell):
            store_cells(out, recipe, [cell])
        yield cell


@dataclass(frozen=True)
class Failed:
    """A cell that can't be run, and why."""

    row: str
    column: str
    why: str


def _cells(
    recipe: Recipe,
    targets: Sequence[Target],
    seeds: int,
    jobs: int,
    runs: Path | None,
    engine: Engine,
) -> Iterator[Cell | Failed]:
    if jobs == 1 and not engine.is_ray:
        yield from (_run_or_say(recipe, target, seeds, runs) for target in targets)
        return
    # Cells that show different figures of one experiment share its run, so they stay together.
    together: dict[str, list[Target]] = {}
    for target in targets:
        together.setdefault(json.dumps(target.settings, sort_keys=True), []).append(target)
    if engine.is_ray:
        yield from _on_ray(recipe, list(together.values()), seeds, runs, engine)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = [
            pool.submit(_run_named, recipe.name, [(t.row, t.column) for t in group], seeds, runs)
            for group in together.values()
        ]
        for ready in as_completed(waiting):
            yield from ready.result()


def _on_ray(
    recipe: Recipe, groups: Sequence[list[Target]], seeds: int, runs: Path | None, engine: Engine
) -> Iterator[Cell | Failed]:
    """Groups of cells as tasks of a cluster; single runs are kept by hosts that see the folder."""
    with connected(engine) as ray, seen_from_elsewhere(runs or Path(tempfile.gettempdir())) as mark:
        task = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(run_as_task)
        kept = None if runs is None else str(runs.absolute())
        around = surroundings()
        waiting = [
            task.remote(recipe.name, [(t.row, t.column) for t in g], seeds, kept, mark, around)
            for g in groups
        ]
        while waiting:
            [ready], waiting = ray.wait(waiting)
            with of_cluster():
                text, failed, theirs = ray.get(ready)
            refuse_other_versions(theirs)
            yield from cells_of(recipe, text).values()
            yield from (Failed(*words) for words in failed)


def run_as_task(
    name: str,
    places: list[tuple[str, str]],
    seeds: int,
    runs: str | None,
    mark: tuple[str, str],
    around: dict[str, Any],
) -> tuple[str, list[tuple[str, str, str]], dict[str, str]]:
    """Some cells at a host of the cluster: as text, those that failed, and the host's versions."""
    surround(around)
    folder = Path(runs) if runs is not None and sees(mark) else None
    found = _run_named(name, places, seeds, folder)
    cells = [cell for cell in found if isinstance(cell, Cell)]
    failed = [(f.row, f.column, f.why) for f in found if isinstance(f, Failed)]
    return text_of(cells), failed, versions()


def _run_named(
    name: str, places: list[tuple[str, str]], seeds: int, runs: Path | None
) -> list[Cell | Failed]:
    recipe = load_recipe(name)
    chosen = [t for t in recipe.targets if (t.row, t.column) in places]
    return [_run_or_say(recipe, target, seeds, runs) for target in chosen]


def _run_or_say(recipe: Recipe, target: Target, seeds: int, runs: Path | None) -> Cell | Failed:
    try:
        return run_cell(recipe, target, seeds, runs)
    except Interrupted:
        raise
    except AtollError as problem:
        return Failed(target.row, target.column, str(problem))


def run_cell(recipe: Recipe, target: Target, seeds: int, runs: Path | None = None) -> Cell:
    """A cell over its seeds."""
    started = time.perf_counter()
    study = recipe.study
    chosen = chosen_for(target, seeds, runs)
    found = []
    for seed in range(seeds):
        config = json.dumps(describe(target.experiment(seed, chosen.settings)), sort_keys=True)
        found.append(_findings(recipe.header.measure, config, runs))
    figure = target.figure or study.default_figure(target.experiment(0))
    values = [study.figure(findings, figure) for findings in found]
    return Cell(
        target=target,
        values=tuple(values),
        best_rounds=tuple(findings.best_round for findings in found),
        seconds=round(time.perf_counter() - started, 3),
        settings=describe(target.experiment(0, chosen.settings)),
        environment=environment() | {"threads": torch.get_num_threads()} | source(),
        array=drawn_array(recipe, [findings.arrays.get(figure) for findings in found]),
        budget=None if target.budget is None else target.budget.plain(),
        chosen=chosen.settings,
        val=chosen.val,
        costs={} if target.budget is None else _costs(found),
    )


def _costs(found: Sequence[Findings]) -> dict[str, float]:
    """What a run cost, on average."""
    known = [name for name in _COSTS if all(name in f.figures for f in found)]
    return {name: round(mean([f.figures[name] for f in found]), 2) for name in known}


# Large enough for the cells of a row that differ only in which figure they show.
@lru_cache(maxsize=64)
def _findings(measure: str, config: str, runs: Path | None) -> Findings:
    def run() -> Findings:
        return studies[measure]().findings(resolve(json.loads(config)))

    return run() if runs is None else kept(runs, measure, config, run)


def drawn_array(recipe: Recipe, arrays: list[np.ndarray | None]) -> list[Any] | None:
    """What the recipe's plot needs of all seeds, beyond numbers."""
    known = [a for a in arrays if a is not None]
    if recipe.plot is None or recipe.plot.kind not in ("curves", "heatmaps") or not known:
        return None
    drawn = known[0] if recipe.plot.kind == "heatmaps" else _mean_curve(known)
    rounded: list[Any] = np.round(drawn, 4).tolist()
    return rounded


def _mean_curve(curves: list[np.ndarray]) -> np.ndarray:
    """The mean over seeds; a run that finished early stays where it was."""
    longest = max(map(len, curves))
    filled = [np.pad(curve, (0, longest - len(curve)), mode="edge") for curve in curves]
    mean: np.ndarray = np.mean(filled, axis=0)
    return mean
