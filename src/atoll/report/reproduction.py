"""A paper's table with our numbers beside it, for a terminal and for the docs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table

if TYPE_CHECKING:
    from atoll.experiment.recipe import Recipe
    from atoll.experiment.reproduce import Cell

_COLUMNS = ("row", "column", "paper", "ours", "diff.", "allowed", "seeds", "seconds")


def _figures(cell: Cell) -> tuple[str, ...]:
    return (
        cell.row,
        cell.column,
        _published(cell),
        f"{_short(cell.ours)} ± {_short(cell.std)}",
        *_compared(cell),
        str(len(cell.values)),
        f"{cell.seconds:.0f}",
    )


def _published(cell: Cell) -> str:
    if cell.paper is None:
        return "-"
    spread = f" ± {_short(cell.paper_std)}" if cell.paper_std else ""
    return _short(cell.paper) + spread


def _compared(cell: Cell) -> tuple[str, str]:
    """The difference and what is allowed; nothing where nothing was published."""
    if cell.difference is None:
        return "-", "-"
    sign = "+" if cell.difference >= 0 else "-"
    allowed = _short(cell.tolerance) + (" (outside)" if cell.outside else "")
    return sign + _short(abs(cell.difference)), allowed


def _short(value: float) -> str:
    """Three decimals for shares, two for percents, none for thousands."""
    return (
        f"{value:.3f}"
        if abs(value) < 1
        else f"{value:.2f}"
        if abs(value) < 1000
        else f"{value:.0f}"
    )


def show(recipe: Recipe, cells: Sequence[Cell]) -> Table:
    table = Table(title=recipe.header.title, caption="mean ± standard deviation over seeds")
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column in ("row", "column") else "right")
    for cell in cells:
        table.add_row(*_figures(cell), style="red" if cell.outside else None)
    return table


def paired(recipe: Recipe, cells: Sequence[Cell]) -> list[str]:
    """The pairs of columns a recipe compares, tested over the seeds they share, as a section.

    A seed fixes the cut, the split and the initial model, so that two columns' values of a seed
    belong together: a two-sided t-test of their differences.
    """
    done = {(cell.row, cell.column): cell for cell in cells}
    lines = []
    for row in dict.fromkeys(cell.row for cell in cells):
        for text in recipe.header.compare:
            one, other = (done.get((row, name.strip())) for name in text.split(">"))
            if one is not None and other is not None:
                lines.append(f"| {row} | {text} | " + " | ".join(_difference(one, other)) + " |")
    if not lines:
        return []
    return [
        "Paired differences over seeds, and p of a two-sided paired t-test:",
        "",
        "| row | columns | difference | seeds | p |",
        "|---|---|---|---|---|",
        *lines,
        "",
    ]


def _difference(one: Cell, other: Cell) -> tuple[str, str, str]:
    from scipy.stats import ttest_rel  # slow to import, and seldom needed

    count = min(len(one.values), len(other.values))
    first, second = np.array(one.values[:count]), np.array(other.values[:count])
    gaps = first - second
    sign = "+" if gaps.mean() >= 0 else "-"
    spread = gaps.std(ddof=1) if count > 1 else 0.0
    known = count > 1 and spread > 0
    p = f"{ttest_rel(first, second).pvalue:.2g}" if known else "-"
    return f"{sign}{_short(abs(gaps.mean()))} ± {_short(spread)}", str(count), p


def markdown(recipe: Recipe, cells: Sequence[Cell]) -> str:
    """The page that ``atoll reproduce`` writes."""
    lines = [f"# {recipe.header.title}", "", recipe.header.source, ""]
    if recipe.header.notes:
        lines += [recipe.header.notes.strip(), ""]
    if recipe.plot is not None:
        lines += [f"![{recipe.header.title}]({recipe.name.split('/')[-1]}.svg)", ""]
    lines += [
        f"{recipe.study.caption}, mean ± standard deviation over seeds. Written by "
        "`atoll reproduce`; do not edit.",
        "",
        "| " + " | ".join(_COLUMNS) + " |",
        "|" + "---|" * len(_COLUMNS),
        *("| " + " | ".join(_figures(cell)) + " |" for cell in cells),
        "",
        *paired(recipe, cells),
        "Commands:",
        "",
        *(f"    {command}" for command in dict.fromkeys(cell.command for cell in cells)),
        "",
    ]
    return "\n".join(lines)
