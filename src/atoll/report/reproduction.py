"""A paper's table with our numbers beside it, for a terminal and for the docs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from atoll.experiment.recipe import Recipe
    from atoll.experiment.reproduce import Cell

_COLUMNS = ("row", "method", "paper", "ours", "diff.", "allowed", "seeds", "seconds")


def _figures(cell: Cell) -> tuple[str, ...]:
    return (
        cell.row,
        cell.method,
        f"{cell.paper:.2f} ± {cell.paper_std:.2f}",
        f"{cell.ours:.2f} ± {cell.std:.2f}",
        f"{cell.difference:+.2f}",
        f"{cell.tolerance:g}" + (" (outside)" if cell.outside else ""),
        str(len(cell.values)),
        f"{cell.seconds:.0f}",
    )


def show(recipe: Recipe, cells: Sequence[Cell]) -> Table:
    table = Table(title=recipe.header.title, caption="mean ± standard deviation over seeds")
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column in ("row", "method") else "right")
    for cell in cells:
        table.add_row(*_figures(cell), style="red" if cell.outside else None)
    return table


def markdown(recipe: Recipe, cells: Sequence[Cell]) -> str:
    """The page that ``atoll reproduce`` writes."""
    lines = [f"# {recipe.header.title}", "", recipe.header.source, ""]
    if recipe.header.notes:
        lines += [recipe.header.notes.strip(), ""]
    lines += [
        "Accuracy in percent, mean ± standard deviation over seeds. Written by `atoll reproduce`; "
        "do not edit.",
        "",
        "| " + " | ".join(_COLUMNS) + " |",
        "|" + "---|" * len(_COLUMNS),
        *("| " + " | ".join(_figures(cell)) + " |" for cell in cells),
        "",
        "Commands:",
        "",
        *(f"    {command}" for command in dict.fromkeys(cell.command for cell in cells)),
        "",
    ]
    return "\n".join(lines)
