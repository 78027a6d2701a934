"""Cells that are off the paper's by more than is allowed: which, why, and how many there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from atoll.report.numbers import short
from atoll.reproduction.cells import Cell
from atoll.reproduction.readings import Number, Remark
from atoll.reproduction.recipe import Recipe

_NOT_KNOWN = "not explained by anything that was measured"


# A mean over fewer seeds has an interval that says nothing.
_FEWEST_SEEDS = 3


def reasons(recipe: Recipe, cells: Sequence[Cell]) -> list[str]:
    """The cells of a page that are outside, by what was found about them, as a section."""
    groups: dict[tuple[Remark | None, bool], list[Cell]] = {}
    for cell in cells:
        if cell.outside:
            remark = recipe.remark(cell.target)
            groups.setdefault((remark, remark is None and is_scatter(cell)), []).append(cell)
    if not groups:
        return []
    lines = (_line(remark, off) for (remark, _), off in groups.items())
    return ["Outside, and what was found:", "", *lines, ""]


def _line(remark: Remark | None, cells: Sequence[Cell]) -> str:
    which = "; ".join(
        f"{cell.row} {cell.column} {short(cell.ours)} ({short(cell.paper or 0.0)}{_scatter(cell)})"
        for cell in cells
    )
    if remark is None:
        if all(is_scatter(cell) for cell in cells):
            return f"- {which}: the paper's number lies in the 95 % interval of our mean."
        return f"- {which}: {_NOT_KNOWN}."
    words = " ".join(remark.because.split())
    return f"- {which}. {words}" if remark.explained else f"- {which}: {_NOT_KNOWN}. {words}"


def _scatter(cell: Cell) -> str:
    return f", ± {short(cell.interval)} over {len(cell.values)} seeds" if is_scatter(cell) else ""


def is_scatter(cell: Cell) -> bool:
    """Whether the paper's number can't be told from ours, as far as seeds differ."""
    off = abs(cell.difference or 0.0)
    return len(cell.values) >= _FEWEST_SEEDS and off <= cell.interval


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
        "*Explained* are cells of which the page says why, by something measured; *in our "
        "interval* are others whose published number lies in the 95 % interval of our mean over "
        "three seeds or more. Where a paper leaves a setting open, several cells stand beside one "
        "of its numbers, one per reading; a *number* is outside if it is in every reading that was "
        "run, and explained if every one of them is.",
        "",
        "| paper | cells | outside | explained | in our interval | neither "
        "| numbers | outside in every reading | explained | in our interval | neither |",
        "|" + "---|" * 11,
        *(_row(paper, figures) for paper, figures in lines.items()),
        _row("all", total),
        "",
        f"Of {total[0]} cells with a published number {total[1]} are outside, {total[4]} of them "
        f"unexplained. They are readings of {total[5]} numbers, of which {total[6]} are outside in "
        f"every reading, {total[9]} of them unexplained.",
    ]


def _row(paper: str, figures: Sequence[int]) -> str:
    return f"| {paper} | " + " | ".join(map(str, figures)) + " |"


def _counts(compared: Sequence[tuple[Recipe, Cell]]) -> tuple[int, ...]:
    """Cells, outside, and these by what is known of them; then the same of numbers."""
    by_number: dict[Number, list[tuple[Recipe, Cell]]] = {}
    for recipe, cell in compared:
        by_number.setdefault(recipe.number(cell.target), []).append((recipe, cell))
    outside = [_known(*one) for one in compared if one[1].outside]
    numbers = [
        max(_known(*one) for one in readings)
        for readings in by_number.values()
        if all(cell.outside for _, cell in readings)
    ]
    counted = ((compared, outside), (by_number, numbers))
    return tuple(
        figure
        for every, off in counted
        for figure in (len(every), len(off), *(off.count(known) for known in range(3)))
    )


def _known(recipe: Recipe, cell: Cell) -> int:
    """0: explained, 1: within the scatter over seeds, 2: neither."""
    remark = recipe.remark(cell.target)
    if remark is not None and remark.explained:
        return 0
    return 1 if is_scatter(cell) else 2
