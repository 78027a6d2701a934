"""A paper's table with our numbers beside it, for a terminal and for the docs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from atoll.report.comparison import paired, standing
from atoll.report.numbers import short, signed
from atoll.report.outside import in_all, reasons
from atoll.reproduction.cells import Cell
from atoll.reproduction.recipe import Recipe
from atoll.reproduction.verify import Check

_INTERVAL = "95 %"
# A grid with more columns is turned over.
_WIDEST_GRID = 10


def _columns(recipe: Recipe) -> tuple[str, ...]:
    interval = (_INTERVAL,) if recipe.header.interval else ()
    return ("row", "column", "paper", "ours", *interval, "diff.", "allowed", "seeds", "seconds")


def _figures(recipe: Recipe, cell: Cell) -> tuple[str, ...]:
    interval = (f"± {short(cell.interval)}",) if recipe.header.interval else ()
    return (
        cell.row,
        cell.column,
        _published(cell),
        f"{short(cell.ours)} ± {short(cell.std)}",
        *interval,
        *_compared(cell),
        str(len(cell.values)),
        f"{cell.seconds:.0f}",
    )


def _means(recipe: Recipe) -> str:
    interval = f"; {_INTERVAL}: interval of the mean" if recipe.header.interval else ""
    return f"mean ± standard deviation over seeds{interval}"


def _published(cell: Cell) -> str:
    if cell.paper is None:
        return "-"
    std = f" ± {short(cell.target.std)}" if cell.target.std else ""
    return short(cell.paper) + std


def _compared(cell: Cell) -> tuple[str, str]:
    """The difference and what is allowed; nothing where nothing was published."""
    if cell.difference is None:
        return "-", "-"
    allowed = short(cell.target.tolerance) + (" (outside)" if cell.outside else "")
    return signed(cell.difference), allowed


def show(recipe: Recipe, cells: Sequence[Cell]) -> Table:
    table = Table(title=recipe.header.title, caption=_means(recipe))
    for column in _columns(recipe):
        table.add_column(column, justify="left" if column in ("row", "column") else "right")
    for cell in cells:
        table.add_row(*_figures(recipe, cell), style="red" if cell.outside else None)
    return table


def overview(kept: Mapping[Recipe, Sequence[Cell]]) -> list[tuple[str, ...]]:
    """One line per recipe: name, title, cells that were run, of how many, how many are outside, and
    how many are as far above the paper's where that is fine."""
    return [
        (
            recipe.name,
            recipe.header.title,
            str(len(cells)),
            str(len(recipe.targets)),
            str(sum(cell.outside for cell in cells)),
            str(sum(cell.off and not cell.outside for cell in cells)),
        )
        for recipe, cells in kept.items()
    ]


def overview_table(kept: Mapping[Recipe, Sequence[Cell]]) -> Table:
    caption = "cells kept, cells there are, kept ones off the paper's, and as far above where fine"
    table = Table(title="Recipes", caption=caption)
    for column in ("recipe", "title", "kept", "cells", "outside", "above"):
        table.add_column(column, justify="left" if column in ("recipe", "title") else "right")
    for line in overview(kept):
        table.add_row(*line, style=None if line[2] != "0" else "dim")
    return table


def verification_table(checks: Sequence[Check]) -> Table:
    """Cells that were run again beside what is kept of them."""
    same = sum(check.same for check in checks)
    table = Table(title="Kept cells, run again", caption=f"{same} of {len(checks)} are the same")
    for column in ("recipe", "row", "column", "kept", "now", "largest difference"):
        table.add_column(column, justify="left" if column in ("recipe", "row") else "right")
    for check in checks:
        means = (short(check.kept.ours), short(check.now.ours), short(check.largest))
        where = (check.recipe.name, check.kept.row, check.kept.column)
        table.add_row(*where, *means, style=None if check.same else "red")
    return table


def overview_page(kept: Mapping[Recipe, Sequence[Cell]]) -> str:
    """The index of a results folder."""
    lines = [
        "# Reproductions",
        "",
        "What has been run of the papers' tables and figures. *Outside* counts cells whose mean is "
        "off the paper's by more than the recipe allows; each page says what that is and, where we "
        "know, why. *Above* counts those that are as far above it where the recipe takes that for "
        "fine. Written by `atoll reproduce`; do not edit.",
        "",
        "| recipe | title | cells run | of | outside | above |",
        "|---|---|---|---|---|---|",
    ]
    for name, *figures in overview(kept):
        link = name if figures[1] == "0" else f"[{name}]({name}.md)"
        lines.append("| " + " | ".join([link, *figures]) + " |")
    return "\n".join([*lines, "", *in_all(kept), ""])


def grid(cells: Sequence[Cell]) -> list[str]:
    """Our means with the paper's in brackets: rows by columns, or the other way if too wide."""
    rows = list(dict.fromkeys(cell.row for cell in cells))
    columns = list(dict.fromkeys(cell.column for cell in cells))
    texts = {(cell.row, cell.column): _glance(cell) for cell in cells}
    if len(columns) > _WIDEST_GRID and len(rows) < len(columns):
        rows, columns = columns, rows
        texts = {(column, row): text for (row, column), text in texts.items()}
    return [
        "| | " + " | ".join(columns) + " |",
        "|" + "---|" * (len(columns) + 1),
        *(
            f"| {row} | " + " | ".join(texts.get((row, column), "") for column in columns) + " |"
            for row in rows
        ),
        "",
    ]


def _warning(cells: Sequence[Cell]) -> list[str]:
    earlier = [cell for cell in cells if not cell.is_current]
    if not earlier:
        return []
    names = ", ".join(f"{cell.row} {cell.column}" for cell in earlier)
    which = "all of them" if len(earlier) == len(cells) else names
    return [
        f"**Run with other settings than the recipe has now, to be run again: {which}.**",
        "",
    ]


def _glance(cell: Cell) -> str:
    published = "" if cell.paper is None else f" ({short(cell.paper)})"
    return f"{short(cell.ours)} ± {short(cell.std)}{published}"


def _command(recipe: Recipe, cell: Cell) -> str:
    return f"atoll reproduce {recipe.name} --row {cell.row} --seeds {len(cell.values)}"


def markdown(recipe: Recipe, cells: Sequence[Cell]) -> str:
    """The page that ``atoll reproduce`` writes; it names cells that have earlier settings."""
    lines = [f"# {recipe.header.title}", "", recipe.header.source, ""]
    if recipe.header.notes:
        lines += [recipe.header.notes.strip(), ""]
    if recipe.plot is not None:
        lines += [f"![{recipe.header.title}]({recipe.name.split('/')[-1]}.svg)", ""]
    columns = _columns(recipe)
    lines += [
        f"{recipe.study.caption}, {_means(recipe)}; the paper's in brackets. "
        "Written by `atoll reproduce`; do not edit.",
        "",
        *grid(cells),
        *_warning(cells),
        *standing(recipe, cells),
        *reasons(recipe, cells),
        "Each cell:",
        "",
        "| " + " | ".join(columns) + " |",
        "|" + "---|" * len(columns),
        *("| " + " | ".join(_figures(recipe, cell)) + " |" for cell in cells),
        "",
        *paired(recipe, cells),
        "Commands:",
        "",
        *(f"    {command}" for command in dict.fromkeys(_command(recipe, cell) for cell in cells)),
        "",
    ]
    return "\n".join(lines)
