"""The page of a leaderboard: a recipe whose cells were tuned within one budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from atoll.report.markdown import markdown_table
from atoll.report.numbers import short
from atoll.report.study import said_of_tests
from atoll.reproduction.cells import Cell
from atoll.reproduction.recipe import Recipe
from atoll.reproduction.standings import Standing, Standings, standings

_OF_ROW = (
    "rank",
    "method",
    "test",
    "std",
    "to the best",
    "p (Holm)",
    "paper",
    "validation",
    "MB up",
    "MB down",
    "seconds",
    "chosen",
)


def leaderboard(recipe: Recipe, cells: Sequence[Cell]) -> str:
    """The whole page."""
    found = standings(recipe, cells)
    kept = sum(1 for _ in cells)
    lines = [f"# {recipe.header.title}", "", recipe.header.source, ""]
    lines += [recipe.header.notes.strip(), "", *_protocol(recipe)]
    lines += [
        f"{kept} of {len(recipe.targets)} cells have been run, {len(found.whole_rows)} of "
        f"{len(recipe.rows)} federations whole. Written by `atoll reproduce`; do not edit.",
        "",
        *_earlier(cells),
        "## All federations",
        "",
        *_overall(found),
    ]
    for row in found.rows:
        lines += _federation(found, row)
    return "\n".join([*lines, *_absent(recipe), *_left(found), *_commands(recipe)])


def _protocol(recipe: Recipe) -> list[str]:
    budget = recipe.budget
    assert budget is not None
    common = ", ".join(f"`{path}` {_range(given)}" for path, given in budget.over.items())
    lines = [
        "## Protocol",
        "",
        f"For every method and federation {budget.trials} settings are tried: the recipe's own, "
        f"then {budget.trials - 1} drawn at random from declared ranges. Each is one whole run "
        f"with seed {budget.seed}, and the best validation score decides; test scores have no say. "
        f"The chosen one is run with seeds 0 to {recipe.header.seeds - 1}, which no trial has "
        f"seen, and these are what is reported. All methods search {common}, unless they have no "
        f"use for it, and their own settings:",
        "",
    ]
    own = []
    for column in dict.fromkeys(target.column for target in recipe.targets):
        given = next(t.budget for t in recipe.targets if t.column == column)
        assert given is not None
        different = {p: r for p, r in given.over.items() if budget.over.get(p) != r}
        dropped = [f"`{path}` not" for path in budget.over if path not in given.over]
        texts = [f"`{path}` {_range(r)}" for path, r in different.items()] + dropped
        own += [(column, ", ".join(texts))] if texts else []
    return lines + markdown_table(("method", "searches besides"), own)


def _range(given: object) -> str:
    if isinstance(given, list | tuple):
        return "in " + ", ".join(map(str, given))
    text, _, how = str(given).partition(":")
    return text.replace("..", " to ") + (" (log)" if how else "")


def _earlier(cells: Sequence[Cell]) -> list[str]:
    old = [f"{cell.row} {cell.column}" for cell in cells if not cell.is_current]
    if not old:
        return []
    which = ", ".join(old)
    return [f"**Run with other settings than the recipe has now, to be run again: {which}.**", ""]


def _overall(found: Standings) -> list[str]:
    """Methods by mean rank, with their test scores in every federation that was begun."""
    ranks = found.mean_rank
    by_rank = sorted(found.ranked, key=lambda c: ranks.get(c, float("inf")))
    columns = [*by_rank, *found.recipe.header.references]
    best = {
        row: {s.cell.column for s in found.of_row(row) if s.rank is not None and s.level}
        for row in found.rows
    }
    lines = []
    for column in columns:
        if not any((row, column) in found.by_place for row in found.rows):
            continue
        mean = ranks.get(column)
        texts = [_glance(found, row, column, column in best[row]) for row in found.rows]
        lines.append((column, "-" if mean is None else f"{mean:.1f}", *texts))
    table = markdown_table(("method", "mean rank", *found.rows), lines)
    said = [f"- {line}" for line in said_of_tests(found.over_rows)]
    return [
        "Test accuracy in percent, mean over clients, then over seeds. Bold: the best of a whole "
        "federation and those that a paired t-test over its seeds, corrected by Holm, does not "
        "tell from it at 0.05: with few seeds and many methods a weak test, so that bold does not "
        "mean as good. A mean rank is among the methods that have been run in every federation of "
        f"which at least half the cells have been (methods: {len(found.common)}, federations: "
        f"{len(found.broad_rows)}).",
        "",
        *table,
        *said,
        *([""] if said else []),
    ]


def _glance(found: Standings, row: str, column: str, bold: bool) -> str:
    if (row, column) in found.recipe.absent:
        return "n/a"
    cell = found.by_place.get((row, column))
    if cell is None:
        return ""
    return f"**{cell.ours:.1f}**" if bold else f"{cell.ours:.1f}"


def _federation(found: Standings, row: str) -> list[str]:
    left = found.missing(row)
    said = [f"Not run yet: {', '.join(left)}.", ""] if left else []
    lines = [_line(standing) for standing in found.of_row(row)]
    return [f"## {row}", "", *said, *markdown_table(_OF_ROW, lines)]


def _line(standing: Standing) -> tuple[str, ...]:
    cell = standing.cell
    gap = standing.behind
    costs = [cell.costs.get(name) for name in ("bytes_up", "bytes_down")]
    seconds = cell.costs.get("seconds")
    return (
        "-" if standing.rank is None else f"{standing.rank:g}",
        cell.column,
        f"{cell.ours:.2f}",
        f"{cell.std:.2f}",
        "-" if gap is None or gap.mean is None else f"{gap.mean:+.2f}",
        "-" if standing.p_holm is None else f"{standing.p_holm:.2g}",
        "-" if cell.paper is None else f"{cell.paper:.2f}",
        "-" if cell.val is None else f"{100 * cell.val:.2f}",
        *("-" if cost is None else short(cost / 1e6) if cost else "0" for cost in costs),
        "-" if seconds is None else f"{seconds:.1f}",
        ", ".join(f"{path.partition('.')[2]} {_value(v)}" for path, v in cell.chosen.items()),
    )


def _value(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _absent(recipe: Recipe) -> list[str]:
    """What does not apply, and why: columns with the same reason in the same rows together."""
    rows_of: dict[tuple[str, str], list[str]] = {}
    for (row, column), reason in recipe.absent.items():
        rows_of.setdefault((reason, column), []).append(row)
    columns_of: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (reason, column), rows in rows_of.items():
        columns_of.setdefault((reason, tuple(rows)), []).append(column)
    if not columns_of:
        return []
    lines = [
        (", ".join(columns), _listed(rows, recipe.rows), reason)
        for (reason, rows), columns in columns_of.items()
    ]
    head = ["## What does not apply", ""]
    return head + markdown_table(("methods", "federations", "because"), lines)


def _listed(rows: Sequence[str], everything: Sequence[str]) -> str:
    """Rows by name, or those that are not among them, whichever are fewer."""
    others = [row for row in everything if row not in rows]
    if len(others) >= len(rows):
        return ", ".join(rows)
    return f"all but {', '.join(others)}" if others else "all"


def _left(found: Standings) -> list[str]:
    recipe = found.recipe
    lines = [
        f"- {row}: {len(left)} of {sum(t.row == row for t in recipe.targets)} cells"
        for row in recipe.rows
        if (left := found.missing(row))
    ]
    return ["## What is left to run", "", *lines, ""] if lines else []


def _commands(recipe: Recipe) -> Iterator[str]:
    yield from (
        "## Commands",
        "",
        f"    atoll reproduce {recipe.name} --missing --runs runs/leaderboard",
        "",
        "runs what is missing, federation by federation (`--row`, `--column` choose), and goes on "
        "where it was interrupted. Seconds are those of one run's rounds, on a machine with other "
        "work; bytes those of one run, over all clients.",
        "",
    )
