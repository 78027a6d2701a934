"""Whether kept results still come out: some of them run again and held against what is kept."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from atoll.errors import AtollError
from atoll.reproduction.cells import Cell
from atoll.reproduction.recipe import Recipe, load_recipe, recipe_names
from atoll.reproduction.reproduce import run_cell
from atoll.reproduction.results import load_cells

# Values differ by so much where only the rounding of a last digit does.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Check:
    """A kept cell and what the same settings gave now."""

    recipe: Recipe
    kept: Cell
    now: Cell

    @property
    def largest(self) -> float:
        """The largest difference between the two, seed by seed."""
        pairs = zip(self.kept.values, self.now.values, strict=True)
        return max(abs(a - b) for a, b in pairs)

    @property
    def same(self) -> bool:
        return self.largest <= _ROUNDING


def drawn(out: Path, count: int, tables: Sequence[str], seed: int) -> list[tuple[Recipe, Cell]]:
    """Kept cells by chance, of some tables or of all, that have the settings of now."""
    recipes = [load_recipe(name) for name in (tables or recipe_names())]
    there = [(r, cell) for r in recipes for cell in load_cells(out, r).values() if cell.is_current]
    if not there:
        raise AtollError(f"'{out}' keeps no cell with the settings of now; name another --out.")
    return random.Random(seed).sample(there, min(count, len(there)))


def verified(cells: Sequence[tuple[Recipe, Cell]]) -> Iterator[Check]:
    """Each of them run again with as many seeds; nothing is kept of it."""
    for recipe, cell in cells:
        yield Check(recipe, cell, run_cell(recipe, cell.target, len(cell.values)))
