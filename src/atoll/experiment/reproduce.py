"""Running a recipe and keeping what came out."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from atoll.errors import unknown
from atoll.experiment.checkpoint import damaged, write_atomically, write_json
from atoll.experiment.config import Experiment, describe, resolve
from atoll.experiment.recipe import Recipe, Target
from atoll.experiment.result import environment
from atoll.experiment.runner import load_whole, parties_of, partition_rng, run_experiment
from atoll.report.description import Description
from atoll.report.reproduction import markdown


@dataclass(frozen=True)
class Cell:
    """Our number beside the paper's, with all it takes to run it again."""

    row: str
    column: str
    paper: float
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

    @property
    def difference(self) -> float:
        return self.ours - self.paper

    @property
    def outside(self) -> bool:
        if self.above == "fine" and self.difference > 0:
            return False
        return abs(self.difference) > self.tolerance


def reproduce_table(
    recipe: Recipe, rows: list[str], columns: list[str], seeds: int | None, out: Path, bar: Any
) -> list[Cell]:
    """Run the chosen cells. Each is kept as soon as it is done, beside earlier ones."""
    targets = recipe.chosen(rows, columns)
    seeds = seeds or recipe.header.seeds
    task = bar.add_task(recipe.name, total=len(targets) * seeds, note="")
    kept = load_cells(out, recipe.name)
    done = []
    bar.start()
    for target in targets:
        bar.update(task, note=f"{target.row} {target.column}")
        cell = _run(recipe, target, seeds, lambda: bar.advance(task))
        done.append(cell)
        kept[f"{cell.row} {cell.column}"] = cell
        _store(out, recipe, kept)
    return done


def _run(recipe: Recipe, target: Target, seeds: int, advance: Any) -> Cell:
    started = time.perf_counter()
    values, best_rounds = [], []
    for seed in range(seeds):
        experiment = target.experiment(seed)
        if recipe.header.measure == "statistics":
            values.append(_statistic(experiment, target.column))
        else:
            with tempfile.TemporaryDirectory() as scratch:
                result = run_experiment(experiment, Path(scratch))
            values.append(100 * result.test_accuracy)
            best_rounds.append(result.best_round)
        advance()
    return Cell(
        row=target.row,
        column=target.column,
        paper=target.mean,
        paper_std=target.std,
        tolerance=target.tolerance,
        above=recipe.header.above,
        ours=statistics.mean(values),
        std=statistics.stdev(values) if len(values) > 1 else 0.0,
        values=tuple(values),
        best_rounds=tuple(best_rounds),
        seconds=time.perf_counter() - started,
        command=f"atoll reproduce {recipe.name} --row {target.row} --seeds {seeds}",
        settings=describe(target.experiment(0)),
        environment=environment(),
    )


def _statistic(experiment: Experiment, name: str) -> float:
    """One statistic of a partition; a row's other cells reuse the computation."""
    found = _statistics(json.dumps(describe(experiment), sort_keys=True))
    if name not in found:
        raise unknown("statistic", name, found)
    return found[name]


@lru_cache(maxsize=8)
def _statistics(config: str) -> dict[str, float]:
    experiment = resolve(json.loads(config))
    whole = load_whole(experiment)
    found = Description(whole, parties_of(experiment, whole)).statistics()
    return found | experiment.partition.statistics(whole, partition_rng(experiment))


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
    order = {f"{t.row} {t.column}": i for i, t in enumerate(recipe.targets)}
    sorted_cells = sorted(
        (cell for key, cell in cells.items() if key in order),
        key=lambda cell: order[f"{cell.row} {cell.column}"],
    )
    write_json(out / f"{recipe.name}.json", {"cells": [asdict(cell) for cell in sorted_cells]})
    write_atomically(out / f"{recipe.name}.md", markdown(recipe, sorted_cells).encode())
