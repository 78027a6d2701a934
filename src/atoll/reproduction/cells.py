"""Kept cells of a table: our numbers beside the paper's, one JSON file per recipe."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from scipy.special import stdtrit

from atoll.errors import AtollError
from atoll.experiment.checkpoint import damaged, write_json
from atoll.experiment.config import describe, resolve
from atoll.reproduction.recipe import Recipe, Target


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


Place = tuple[str, str]


def load_cells(out: Path, recipe: Recipe) -> dict[Place, Cell]:
    """What is kept of a recipe, by row and column, in its order.

    What the paper says, and how far we may be off, is the recipe's to tell.
    """
    path = out / f"{recipe.name}.json"
    if not path.is_file():
        return {}
    try:
        kept = {(c["row"], c["column"]): Cell(**c) for c in json.loads(path.read_text())["cells"]}
    except (ValueError, KeyError, TypeError) as problem:
        raise damaged(path, problem) from problem
    return {
        place: replace(
            kept[place],
            paper=target.paper,
            paper_std=target.std,
            tolerance=target.tolerance,
            above=recipe.header.above,
        )
        for target in recipe.targets
        if (place := (target.row, target.column)) in kept
    }


def store_cells(out: Path, recipe: Recipe, cells: Iterable[Cell]) -> None:
    """Keep cells beside those that are kept already, in the recipe's order."""
    # Read anew each time: another process may be at work on other rows.
    kept = load_cells(out, recipe) | {(cell.row, cell.column): cell for cell in cells}
    order = [(t.row, t.column) for t in recipe.targets]
    in_order = [asdict(kept[place]) for place in order if place in kept]
    write_json(out / f"{recipe.name}.json", {"cells": in_order})


def is_current(target: Target, cell: Cell) -> bool:
    """Whether a kept cell was run with what the recipe says now."""
    try:
        # Resolved anew, settings that have come since have their defaults.
        before = describe(resolve(cell.settings))
    except AtollError:
        return False
    return json.dumps(before) == json.dumps(describe(target.experiment(0)))
