"""A table's columns against each other, over the seeds that they share.

A seed fixes the cut, the split and the initial model, so that two columns' values of a seed belong
together.
"""

from __future__ import annotations

from collections.abc import Sequence

from atoll.comparison.statistics import mean, p_value, std
from atoll.report.numbers import short, signed
from atoll.reproduction.cells import Cell
from atoll.reproduction.recipe import Recipe

# How far below the paper's its own method may score and still count as reproduced.
_CLOSE = 1.0


def standing(recipe: Recipe, cells: Sequence[Cell]) -> list[str]:
    """How the paper's own method does, in ours and against the others, as a section."""
    own = recipe.header.favourite
    if not own:
        return []
    others = [cell for cell in cells if cell.column != own]
    lines, first = [], 0
    for mine in (cell for cell in cells if cell.column == own):
        rivals = [cell for cell in others if cell.row == mine.row]
        if not rivals or len(rivals) + 1 < len(recipe.chosen([mine.row], [])):
            continue  # a row that was run in part has no first
        best = max(rivals, key=lambda cell: cell.ours)
        first += mine.ours >= best.ours
        gap, _, _ = _gap(mine, best)
        figures = (mine.row, _mean(mine), f"{best.column} {_mean(best)}", gap, _lead(mine, rivals))
        lines.append("| " + " | ".join(figures) + " |")
    return [
        f"`{own}` is first in {first} of the {len(lines)} rows that were run whole. Expected at "
        "the paper's, above, or little below:",
        "",
        _reached(own, [cell for cell in cells if cell.column == own], _CLOSE),
        _reached("the others", others, recipe.header.tolerance),
        "",
        "The lead is over the best of the others; the paper's is over the best of those in its own "
        "numbers.",
        "",
        f"| row | {own} | best of the others | our lead | the paper's |",
        "|---|---|---|---|---|",
        *lines,
        "",
    ]


def _lead(mine: Cell, rivals: Sequence[Cell]) -> str:
    """How far the paper's own method is ahead in the paper itself."""
    published = {cell.column: cell.paper for cell in rivals if cell.paper is not None}
    if mine.paper is None or not published:
        return "-"
    best = max(published, key=lambda column: published[column])
    return f"{signed(mine.paper - published[best])} ({best} {short(published[best])})"


def _reached(who: str, cells: Sequence[Cell], below: float) -> str:
    """How many cells are at most so far below the paper's, and which are further."""
    gaps = [(cell, cell.difference) for cell in cells if cell.difference is not None]
    low = [cell for cell, gap in gaps if gap < -below]
    which = "; ".join(f"{c.row} {c.column} {_mean(c)} ({short(c.paper or 0.0)})" for c in low)
    count = f"- {who}, at most {short(below)} below: {len(gaps) - len(low)} of {len(gaps)} cells"
    far = sum(cell.off and gap > 0 for cell, gap in gaps)
    above = f" Further above than is allowed below: {far}." if far else ""
    return count + (f"; not {which}." if which else ".") + above


def _mean(cell: Cell) -> str:
    return f"{short(cell.ours)} ± {short(cell.std)}"


def paired(recipe: Recipe, cells: Sequence[Cell]) -> list[str]:
    """The pairs of columns a recipe compares, tested over the seeds they share, as a section.

    That is a two-sided t-test of their differences; the paper's difference stands beside it.
    """
    done = {(cell.row, cell.column): cell for cell in cells}
    published = {recipe.number(t): t.paper for t in recipe.targets if t.paper is not None}
    lines = []
    for row in dict.fromkeys(cell.row for cell in cells):
        for text in recipe.header.compare:
            one, other = (done.get((row, name.strip())) for name in text.split(">"))
            if one is not None and other is not None:
                theirs = (published.get(recipe.number(cell.target)) for cell in (one, other))
                figures = (row, text, *_gap(one, other), _between(*theirs))
                lines.append("| " + " | ".join(figures) + " |")
    if not lines:
        return []
    return [
        "Paired differences over seeds, and p of a two-sided paired t-test:",
        "",
        "| row | columns | difference | seeds | p | the paper's |",
        "|---|---|---|---|---|---|",
        *lines,
        "",
    ]


def _between(one: float | None, other: float | None) -> str:
    """The difference of two published numbers, where both are there."""
    return "-" if one is None or other is None else signed(one - other)


def _gap(one: Cell, other: Cell) -> tuple[str, str, str]:
    gaps = [a - b for a, b in zip(one.values, other.values, strict=False)]
    p = p_value(gaps)
    known = "-" if p is None else f"{p:.2g}"
    return f"{signed(mean(gaps))} ± {short(std(gaps))}", str(len(gaps)), known
