"""What a study found: tables over cells, runs, differences and ranks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars

from atoll.comparison.ranks import FEWEST_ROWS, Ranking, holm, ranking
from atoll.comparison.statistics import FEWEST_SEEDS, Difference, difference
from atoll.notebook import html_table
from atoll.reproduction.cells import Cell
from atoll.reproduction.recipe import Recipe
from atoll.reproduction.studies.run import is_score
from atoll.tabulation.form import Header, Place
from atoll.tabulation.plan import StudyPlan

# Figures of which less is better, besides losses.
_COSTS = ("bytes_up", "bytes_down", "megabytes", "rounds", "best_round")


@dataclass(frozen=True)
class Pair:
    """Two columns of a row, tested over the seeds that they share; ``p_holm`` is corrected."""

    row: str
    column: str
    against: str
    found: Difference
    p_holm: float | None = None

    @property
    def differs(self) -> bool:
        return self.p_holm is not None and self.p_holm < 0.05


@dataclass(frozen=True, repr=False)
class Study:
    """A table that was run. Scores are in percent; losses and all else are what they are.

    ``cells`` has one row per cell: mean, std and 95 % interval over seeds. ``differences`` has one
    row per pair of columns in a row: the paired difference, its interval, p of a paired t-test and
    p corrected for all tests of the table by Holm. ``ranks`` has one row per column: its mean rank
    over the study's rows. ``runs`` has one row per run.
    """

    plan: StudyPlan
    found: dict[Place, Cell]
    figures: dict[str, str]  # the figure of each row
    singles: tuple[dict[str, Any], ...]
    remarks: dict[str, int]  # what was said of runs, and of how many
    out: Path
    recipe: Recipe

    @property
    def header(self) -> Header:
        return self.plan.form.header

    @property
    def rows(self) -> list[str]:
        return [entry.label for entry in self.plan.form.rows]

    @property
    def columns(self) -> list[str]:
        return [entry.label for entry in self.plan.form.columns]

    @property
    def title(self) -> str:
        return self.header.title or self.plan.form.name

    @property
    def figure(self) -> str:
        """What the cells show, in words."""
        names = list(dict.fromkeys(self.figures.values()))
        percent = " in percent" if all(is_score(name) for name in names) else ""
        return " or ".join(name.replace("_", " ") for name in names) + percent

    @property
    def less_is_better(self) -> bool:
        if self.header.better != "auto":
            return self.header.better == "less"
        return all(
            name.partition("@")[0].endswith("loss") or name in _COSTS
            for name in self.figures.values()
        )

    @cached_property
    def cells(self) -> polars.DataFrame:
        lines = [
            {
                "row": row,
                "column": column,
                "figure": self.figures[row],
                "seeds": len(cell.values),
                "mean": cell.ours,
                "std": cell.std if len(cell.values) > 1 else None,
                "low": known(cell.ours - cell.interval),
                "high": known(cell.ours + cell.interval),
            }
            for (row, column), cell in self.found.items()
        ]
        numbers = dict.fromkeys(("std", "low", "high"), polars.Float64)
        return polars.DataFrame(lines, schema_overrides=numbers)

    @cached_property
    def runs(self) -> polars.DataFrame:
        return polars.DataFrame(list(self.singles), infer_schema_length=None)

    @cached_property
    def pairs(self) -> list[Pair]:
        """Every test of the table, with p corrected for all of them."""
        pairs = list(self._pairs())
        corrected = holm([pair.found.p for pair in pairs])
        return [
            Pair(pair.row, pair.column, pair.against, pair.found, p)
            for pair, p in zip(pairs, corrected, strict=True)
        ]

    @cached_property
    def differences(self) -> polars.DataFrame:
        lines = [
            {
                "row": pair.row,
                "column": pair.column,
                "against": pair.against,
                "seeds": pair.found.seeds,
                "difference": pair.found.mean,
                "low": pair.found.low,
                "high": pair.found.high,
                "p": pair.found.p,
                "p_holm": pair.p_holm,
            }
            for pair in self.pairs
        ]
        text = dict.fromkeys(("row", "column", "against"), polars.String)
        more = dict.fromkeys(("difference", "low", "high", "p", "p_holm"), polars.Float64)
        return polars.DataFrame(lines, schema={**text, "seeds": polars.Int64, **more})

    @cached_property
    def ranking(self) -> Ranking:
        """Columns ranked over the rows by their means."""
        scores = np.array(
            [[self.found[row, column].ours for column in self.columns] for row in self.rows]
        )
        return ranking(self.columns, scores, self.less_is_better)

    @cached_property
    def ranks(self) -> polars.DataFrame:
        found = self.ranking
        lines = {"column": list(found.columns), "mean_rank": list(found.mean)}
        return polars.DataFrame(lines).sort("mean_rank", maintain_order=True)

    def best_of(self, row: str) -> list[str]:
        """The columns with the best mean of a row."""
        means = {column: self.found[row, column].ours for column in self.columns}
        known = [mean for mean in means.values() if mean == mean]
        if not known:
            return []
        top = min(known) if self.less_is_better else max(known)
        return [column for column, mean in means.items() if mean == top]

    def cautions(self) -> list[str]:
        """What stands in the way of a conclusion, if anything."""
        said = []
        if len(self.plan.seeds) < FEWEST_SEEDS:
            said.append(
                f"{len(self.plan.seeds)} is too few seeds for intervals and tests; take at least "
                f"{FEWEST_SEEDS}, better 5 (seeds = 5)."
            )
        if len(self.columns) > 1 and self.ranking.critical is None:
            said.append(
                f"Mean ranks over {self.ranking.rows} rows are shown without a test, which needs "
                f"at least {FEWEST_ROWS} rows."
            )
        return said

    def summary(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        found = self.ranking
        return {
            "title": self.title,
            "rows": self.rows,
            "columns": self.columns,
            "seeds": list(self.plan.seeds),
            "figures": self.figures,
            "less_is_better": self.less_is_better,
            "cells": [
                line | {"mean": known(line["mean"]), "values": [known(v) for v in cell.values]}
                for line, cell in zip(self.cells.to_dicts(), self.found.values(), strict=True)
            ],
            "differences": self.differences.to_dicts(),
            "ranks": {
                "rows": found.rows,
                "mean": {c: known(m) for c, m in zip(found.columns, found.mean, strict=True)},
                "friedman_p": found.friedman,
                "critical_difference": found.critical,
                "wilcoxon_holm": [list(pair) for pair in found.wilcoxon],
            },
            "cautions": self.cautions(),
            "remarks": self.remarks,
        }

    def __repr__(self) -> str:
        size = f"{len(self.rows)} x {len(self.columns)} cells, {len(self.plan.seeds)} seeds"
        return f"<Study {self.title}: {size}, {self.figure}, in '{self.out}'>"

    def _repr_html_(self) -> str:
        """The table: mean and standard deviation over seeds."""
        rows = [
            (row, *(_shown(self.found[row, column]) for column in self.columns))
            for row in self.rows
        ]
        title = f"{self.title}: {self.figure}, {len(self.plan.seeds)} seeds"
        parts = [html_table(title, ("", *self.columns), rows)]
        return "".join(parts + [html_table(said, (), ()) for said in self.cautions()])

    def _pairs(self) -> Iterator[Pair]:
        for row in self.rows:
            for column, against in self._tested():
                one, other = self.found[row, column].values, self.found[row, against].values
                gaps = [a - b for a, b in zip(one, other, strict=True) if a == a and b == b]
                yield Pair(row, column, against, difference(gaps))

    def _tested(self) -> list[tuple[str, str]]:
        base = self.header.baseline
        if base:
            return [(column, base) for column in self.columns if column != base]
        return list(itertools.combinations(self.columns, 2))


def _shown(cell: Cell) -> str:
    return f"{cell.ours:.4g}" + (f" ± {cell.std:.2g}" if len(cell.values) > 1 else "")


def known(value: float) -> float | None:
    """A number for JSON and tables."""
    return None if math.isnan(value) else value
