"""Running a recipe and keeping what came out."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from atoll.errors import AtollError
from atoll.experiment.config import describe, resolve
from atoll.experiment.kept_runs import kept
from atoll.experiment.recipe import Recipe, Target, load_recipe, recipe_names
from atoll.experiment.result import environment
from atoll.files import damaged, write_json, write_text
from atoll.report.plots import draw
from atoll.report.reproduction import markdown, overview_page
from atoll.studies.base import Findings, studies


@dataclass(frozen=True)
class Cell:
    """Our number beside the paper's, with all it takes to run it again.

    ``array`` is what a plot needs beyond the number: a curve over rounds, mean over seeds, or a
    matrix, of the first seed.
    """

    row: str
    column: str
    paper: float | None
    paper_std: float
    tolerance: float
    above: str
    ours: float
    std: float
    values: tuple[float, ...]
    best_rounds: tuple[int, ...]
    seconds: float
    command: str
    settings: dict[str, Any]
    environment: dict[str, Any]
    array: list[Any] | None = None

    @property
    def difference(self) -> float | None:
        return None if self.paper is None else self.ours - self.paper

    @property
    def interval(self) -> float:
        """Half the 95 % interval of the mean over seeds, by Student's t."""
        n = len(self.values)
        if n < 2:
            return math.nan
        return float(stdtrit(n - 1, 0.975)) * self.std / math.sqrt(n)

    @property
    def outside(self) -> bool:
        if self.difference is None or (self.above == "fine" and self.difference > 0):
            return False
        return abs(self.difference) > self.tolerance


def reproduce_table(
    recipe: Recipe,
    rows: list[str],
    columns: list[str],
    seeds: int | None,
    out: Path,
    bar: Any,
    jobs: int = 1,
    missing: bool = False,
    runs: Path | None = None,
) -> list[Cell]:
    """Run the chosen cells. Each is kept as soon as it is done, beside earlier ones.

    With ``missing``, cells kept with as many seeds and the same settings are not run again. Single
    runs are kept in the folder ``runs``, if there is one, and looked for there.
    """
    targets = recipe.chosen(rows, columns)
    count = seeds or recipe.header.seeds
    there = load_cells(out, recipe.name)
    done = [there[f"{t.row} {t.column}"] for t in targets if missing and _is_kept(t, count, there)]
    settled = {(cell.row, cell.column) for cell in done}
    task = bar.add_task(recipe.name, total=len(targets), completed=len(done), note="")
    bar.start()
    left = [target for target in targets if (target.row, target.column) not in settled]
    for cell in _cells(recipe, left, count, jobs, runs):
        bar.update(task, advance=1, note=f"{cell.row} {cell.column}")
        done.append(cell)
        # Read anew each time: another process may be at work on other rows.
        _store(out, recipe, load_cells(out, recipe.name) | {f"{cell.row} {cell.column}": cell})
    order = [(target.row, target.column) for target in targets]
    return sorted(done, key=lambda cell: order.index((cell.row, cell.column)))


def _is_kept(target: Target, seeds: int, there: dict[str, Cell]) -> bool:
    cell = there.get(f"{target.row} {target.column}")
    return cell is not None and len(cell.values) >= seeds and _is_current(target, cell)


def _is_current(target: Target, cell: Cell) -> bool:
    """Whether a kept cell was run with what the recipe says now."""
    try:
        # Resolved anew, settings that have come since have their defaults.
        before = describe(resolve(cell.settings))
    except AtollError:
        return False
    return json.dumps(before) == json.dumps(describe(target.experiment(0)))


def _cells(
    recipe: Recipe, targets: list[Target], seeds: int, jobs: int, runs: Path | None
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
        row=target.row,
        column=target.column,
        paper=target.paper,
        paper_std=target.std,
        tolerance=target.tolerance,
        above=recipe.header.above,
        ours=statistics.mean(values),
        std=statistics.stdev(values) if len(values) > 1 else 0.0,
        values=tuple(values),
        best_rounds=tuple(findings.best_round for findings in found),
        seconds=time.perf_counter() - started,
        command=f"atoll reproduce {recipe.name} --row {target.row} --seeds {seeds}",
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


def load_cells(out: Path, name: str) -> dict[str, Cell]:
    """What earlier runs left, by row and method."""
    path = out / f"{name}.json"
    if not path.is_file():
        return {}
    try:
        cells = [Cell(**cell) for cell in json.loads(path.read_text())["cells"]]
    except (ValueError, KeyError, TypeError) as problem:
        raise damaged(path, problem) from problem
    return {f"{cell.row} {cell.column}": cell for cell in cells}


def _store(out: Path, recipe: Recipe, cells: dict[str, Cell]) -> None:
    in_order = _in_order(recipe, cells)
    write_json(out / f"{recipe.name}.json", {"cells": [asdict(cell) for cell in in_order]})
    _present(out, recipe, in_order)


def _in_order(recipe: Recipe, cells: dict[str, Cell]) -> list[Cell]:
    """The recipe's cells as far as they are kept; what the paper says is the recipe's to tell."""
    return [
        replace(
            cells[f"{t.row} {t.column}"],
            paper=t.paper,
            paper_std=t.std,
            tolerance=t.tolerance,
            above=recipe.header.above,
        )
        for t in recipe.targets
        if f"{t.row} {t.column}" in cells
    ]


def _present(out: Path, recipe: Recipe, cells: list[Cell]) -> None:
    """The page about some cells, and the picture."""
    if recipe.plot is not None:
        draw(recipe, cells, out / f"{recipe.name}.svg")
    targets = {(target.row, target.column): target for target in recipe.targets}
    earlier = [c for c in cells if not _is_current(targets[c.row, c.column], c)]
    write_text(out / f"{recipe.name}.md", markdown(recipe, cells, earlier))


def review_results(out: Path) -> dict[Recipe, list[Cell]]:
    """All recipes with the cells that are kept of them; pages and index are written anew."""
    kept = {}
    for name in recipe_names():
        recipe = load_recipe(name)
        kept[recipe] = _in_order(recipe, load_cells(out, name))
        if kept[recipe]:
            _present(out, recipe, kept[recipe])
    if any(kept.values()):
        write_text(out / "README.md", overview_page(kept))
    return kept
