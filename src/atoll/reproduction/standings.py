"""Who stands where: cells of a table whose columns compete in every row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from atoll.comparison.ranks import Ranking, holm, ranking, ranks_of
from atoll.comparison.statistics import Difference, difference
from atoll.reproduction.cells import Cell
from atoll.reproduction.recipe import Recipe


@dataclass(frozen=True)
class Standing:
    """A column's place in a row, and how far it is from the row's best, seed by seed.

    ``p_holm`` is p of a paired t-test, corrected for all columns of the row.
    """

    cell: Cell
    rank: float | None
    behind: Difference | None
    p_holm: float | None

    @property
    def level(self) -> bool:
        """Whether it is the best, or can't be told from it."""
        if self.behind is None:
            return True
        return self.p_holm is not None and self.p_holm >= 0.05


@dataclass(frozen=True, eq=False)
class Standings:
    """The kept cells of a recipe, row by row; a row of which cells are missing has no ranks."""

    recipe: Recipe
    cells: tuple[Cell, ...]

    @cached_property
    def rows(self) -> list[str]:
        """The rows of which anything is kept."""
        there = {cell.row for cell in self.cells}
        return [row for row in self.recipe.rows if row in there]

    @cached_property
    def by_place(self) -> dict[tuple[str, str], Cell]:
        return {(cell.row, cell.column): cell for cell in self.cells}

    @property
    def ranked(self) -> list[str]:
        """The columns that compete, in the recipe's order."""
        columns = dict.fromkeys(target.column for target in self.recipe.targets)
        return [column for column in columns if column not in self.recipe.header.references]

    def missing(self, row: str) -> list[str]:
        """The columns that are to be run in a row and are not kept."""
        wanted = [t.column for t in self.recipe.targets if t.row == row]
        return [column for column in wanted if (row, column) not in self.by_place]

    @cached_property
    def whole_rows(self) -> list[str]:
        return [row for row in self.rows if not self.missing(row)]

    @cached_property
    def broad_rows(self) -> list[str]:
        """The rows of which at least half the cells are kept."""
        wanted = Counter(target.row for target in self.recipe.targets)
        return [row for row in self.rows if 2 * len(self.missing(row)) <= wanted[row]]

    @cached_property
    def common(self) -> list[str]:
        """The columns that compete in every broad row, in the recipe's order."""
        rows = self.broad_rows
        return [c for c in self.ranked if rows and all((r, c) in self.by_place for r in rows)]

    def of_row(self, row: str) -> list[Standing]:
        """Best first; references are where their means are, without a rank."""
        rivals = [self.by_place[row, c] for c in self.ranked if (row, c) in self.by_place]
        best = max(rivals, key=lambda cell: cell.ours, default=None)
        gaps = [None if cell is best or best is None else _behind(cell, best) for cell in rivals]
        corrected = holm([None if gap is None else gap.p for gap in gaps])
        ranks = self.ranks(row)
        found = [
            Standing(cell, ranks.get(cell.column), gap, p)
            for cell, gap, p in zip(rivals, gaps, corrected, strict=True)
        ]
        others = (self.by_place.get((row, name)) for name in self.recipe.header.references)
        found += [Standing(cell, None, None, None) for cell in others if cell is not None]
        return sorted(found, key=lambda standing: -standing.cell.ours)

    def ranks(self, row: str) -> dict[str, float]:
        """The rank of every column in a row, 1 for the best; none until the row is whole."""
        if row not in self.whole_rows:
            return {}
        columns = [c for c in self.ranked if (row, c) in self.by_place]
        scores = np.array([[self.by_place[row, c].ours for c in columns]])
        return dict(zip(columns, ranks_of(scores)[0].tolist(), strict=True))

    @cached_property
    def over_rows(self) -> Ranking:
        """Ranks and tests over broad rows, of the columns that are in all of them."""
        rows, columns = self.broad_rows, self.common
        scores = [[self.by_place[row, c].ours for c in columns] for row in rows]
        return ranking(columns, np.array(scores).reshape(len(rows), len(columns)))

    @property
    def mean_rank(self) -> dict[str, float]:
        """Each common column's rank among them, 1 for the best, over broad rows."""
        return dict(zip(self.over_rows.columns, self.over_rows.mean, strict=True))


def _behind(cell: Cell, best: Cell) -> Difference:
    return difference([a - b for a, b in zip(cell.values, best.values, strict=False)])


def standings(recipe: Recipe, cells: Iterable[Cell]) -> Standings:
    return Standings(recipe, tuple(cells))
