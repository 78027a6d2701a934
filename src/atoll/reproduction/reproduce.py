"""Running the cells of a recipe."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from atoll.experiment.config import describe, resolve
from atoll.experiment.result import environment
from atoll.reproduction.cells import Cell
from atoll.reproduction.kept_runs import kept
from atoll.reproduction.recipe import Recipe, Target, load_recipe
from atoll.reproduction.results import load_cells, store_cells
from atoll.reproduction.studies.base import Findings, studies


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
) -> Iterator[Cell]:
    """Run cells, ``jobs`` at a time. Each is kept in ``out`` as soon as it is done.

    Single runs are kept in the folder ``runs``, if there is one, and looked for there.
    """
    for cell in _cells(recipe, targets, seeds, jobs, runs):
        store_cells(out, recipe, [cell])
        yield cell


def _cells(
    recipe: Recipe, targets: Sequence[Target], seeds: int, jobs: int, runs: Path | None
) -> Iterator[Cell]:
    if jobs == 1:
        yield from (_run(recipe, target, seeds, runs) for target in targets)
        return
    # Cells that show different figures of one experiment share its run, so they stay together.
    together: dict[str, list[Target]] = {}
    for target in targets:
        together.setdefault(json.dumps(target.settings, sort_keys=True), []).append(target)
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = [
            pool.submit(_run_named, recipe.name, [(t.row, t.column) for t in group], seeds, runs)
            for group in together.values()
        ]
        for ready in as_completed(waiting):
            yield from ready.result()


def _run_named(
    name: str, places: list[tuple[str, str]], seeds: int, runs: Path | None
) -> list[Cell]:
    recipe = load_recipe(name)
    return [_run(recipe, t, seeds, runs) for t in recipe.targets if (t.row, t.column) in places]


def _run(recipe: Recipe, target: Target, seeds: int, runs: Path | None) -> Cell:
    started = time.perf_counter()
    study = recipe.study
    found = []
    for seed in range(seeds):
        config = json.dumps(describe(target.experiment(seed)), sort_keys=True)
        found.append(_findings(recipe.header.measure, config, runs))
    figure = target.figure or study.default_figure(target.experiment(0))
    values = [study.figure(findings, figure) for findings in found]
    return Cell(
        target=target,
        values=tuple(values),
        best_rounds=tuple(findings.best_round for findings in found),
        seconds=round(time.perf_counter() - started, 3),
        settings=describe(target.experiment(0)),
        environment=environment(),
        array=_array(recipe, [findings.arrays.get(figure) for findings in found]),
    )


# Large enough for the cells of a row that differ only in which figure they show.
@lru_cache(maxsize=64)
def _findings(measure: str, config: str, runs: Path | None) -> Findings:
    def run() -> Findings:
        return studies[measure]().findings(resolve(json.loads(config)))

    return run() if runs is None else kept(runs, measure, config, run)


def _array(recipe: Recipe, arrays: list[np.ndarray | None]) -> list[Any] | None:
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
