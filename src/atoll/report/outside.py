"""Cells that are off the paper's by more than is allowed: which, why, and how many there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from atoll.report.numbers import short
from atoll.reproduction.cells import Cell
from atoll.reproduction.readings import Number, Remark
from atoll.reproduction.recipe import Recipe

_NOT_KNOWN = "Not explained by anything that was measured"


def reasons(recipe: Recipe, cells: Sequence[Cell]) -> list[str]:
    """The cells of a page that are outside, by what was found about them, as a section."""
    groups: dict[Remark | None, list[Cell]] = {}
    for cell in cells:
        if cell.outside:
            groups.setdefault(recipe.remark(cell.target), []).append(cell)
    if not groups:
        return []
    return ["Outside, and what was found:", "", *(_line(*group) for group in groups.items()), ""]


def _line(remark: Remark | None, cells: Sequence[Cell]) -> str:
    which = "; ".join(
        f"{cell.row} {cell.column} {short(cell.ours)} ({short(cell.paper or 0.0)})"
        for cell in cells
    )
    if remark is None:
        return f"- {_NOT_KNOWN}: {which}."
    words = " ".join(remark.because.split())
    return f"- {which}. {words}" if remark.explained else f"- {which}. {_NOT_KNOWN}. {words}"


def in_all(kept: Mapping[Recipe, Sequence[Cell]]) -> list[str]:
    """How many cells with a published number are outside, by paper: a section of the index.

    Where a paper leaves a setting open several cells stand beside one number of the paper; a
    number counts as outside if all of them are.
    """
    papers: dict[str, list[tuple[Recipe, Cell]]] = {}
    for recipe, cells in kept.items():
        compared = [(recipe, cell) for cell in cells if cell.paper is not None]
        papers.setdefault(recipe.name.split("/")[0], []).extend(compared)
    lines = {paper: _counts(compared) for paper, compared in papers.items() if compared}
    if not lines:
        return []
    total = _counts([one for compared in papers.values() for one in compared])
    return [
        "## How many are outside",
        "",
        "*Explained* are cells of which the page says why, by something measured. Where a paper "
        "leaves a setting open, several cells stand beside one of its numbers, one per reading; a "
        "*number* is outside if it is in every reading that was run.",
        "",
        "| paper | cells | outside | explained | not "
        "| numbers | outside in every reading | explained | not |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_row(paper, figures) for paper, figures in lines.items()),
        _row("all", total),
        "",
        f"Of {total[0]} cells with a published number {total[1]} are outside, {total[2]} of them "
        f"for a measured reason. They are readings of {total[4]} numbers, of which {total[5]} are "
        f"outside in every reading, {total[6]} for a measured reason.",
    ]  # fmt: skip


def _row(paper: str, figures: Sequence[int]) -> str:
    return f"| {paper} | " + " | ".join(map(str, figures)) + " |"


def _counts(compared: Sequence[tuple[Recipe, Cell]]) -> tuple[int, ...]:
    """Cells, outside, explained, not; then the same of numbers."""
    by_number: dict[Number, list[tuple[Recipe, Cell]]] = {}
    for recipe, cell in compared:
        by_number.setdefault(recipe.number(cell.target), []).append((recipe, cell))
    outside = [is_explained(*one) for one in compared if one[1].outside]
    numbers = [
        all(is_explained(*one) for one in readings)
        for readings in by_number.values()
        if all(cell.outside for _, cell in readings)
    ]
    counted = ((compared, outside), (by_number, numbers))
    return tuple(
        figure
        for every, off in counted
        for figure in (len(every), len(off), sum(off), len(off) - sum(off))
    )


def is_explained(recipe: Recipe, cell: Cell) -> bool:
    remark = recipe.remark(cell.target)
    return remark is not None and remark.explained
