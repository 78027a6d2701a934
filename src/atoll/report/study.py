"""A study's tables for a terminal, as Markdown, as LaTeX and as files of its folder."""

from __future__ import annotations

import re

from rich.table import Table
from rich.text import Text

from atoll.comparison.ranks import Ranking
from atoll.files import write_json, write_text, written_whole
from atoll.report.critical import draw_ranks
from atoll.report.markdown import markdown_table
from atoll.report.numbers import short, signed
from atoll.report.plots import draw_recipe
from atoll.reproduction.studies.run import is_score
from atoll.tabulation.outcome import Pair, Study

OF_PAIR = ("row", "columns", "difference", "95 % interval", "p", "p (Holm)")
_TABLES = ("cells", "differences", "ranks", "runs")
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    sign: f"\\{sign}" for sign in "&%$#_{}"
}


def write_study(found: Study) -> None:
    """All that a study's folder shows; nothing depends on when or how often it was interrupted."""
    for name in _TABLES:
        with written_whole(found.out / f"{name}.csv") as part:
            getattr(found, name).write_csv(part)
    write_json(found.out / "results.json", found.summary())
    write_text(found.out / "table.tex", latex(found))
    for ending in ("svg", "pdf"):
        draw_recipe(found.recipe, list(found.found.values()), found.out / f"table.{ending}")
        if found.ranking.critical is not None:
            draw_ranks(found.ranking, found.out / f"ranks.{ending}")
    write_text(found.out / "README.md", markdown(found))


def study_table(found: Study) -> Table:
    """Rows by columns, mean and std over seeds; the best of a row is bold."""
    table = Table(title=Text(found.title), caption=caption(found))
    table.add_column("")
    for column in found.columns:
        table.add_column(Text(column), justify="right")
    for row in found.rows:
        best = found.best_of(row)
        cells = [
            Text(cell_text(found, row, c), style="bold" if c in best else "") for c in found.columns
        ]
        table.add_row(Text(row), *cells)
    return table


def differences_table(found: Study) -> Table:
    table = Table(title="Paired differences over seeds", caption=of_tests(found))
    for heading in OF_PAIR:
        table.add_column(heading, justify="left" if heading in ("row", "columns") else "right")
    for pair in found.pairs:
        style = "bold" if pair.differs else None
        table.add_row(*(Text(text) for text in pair_texts(found, pair)), style=style)
    return table


def said_of_ranks(found: Study) -> list[str]:
    """Mean ranks, and what the tests over rows say, in sentences."""
    ranking = found.ranking
    if len(found.columns) < 2 or ranking.rows == 0:
        return []
    ranks = "; ".join(f"{column} ({rank:.2f})" for column, rank in found.ranks.iter_rows())
    return [
        f"Mean ranks over {ranking.rows} rows (1 is best): {ranks}.",
        *said_of_tests(ranking),
    ]


def said_of_tests(ranking: Ranking) -> list[str]:
    """What the tests over rows say, where there are enough of them."""
    lines: list[str] = []
    if ranking.critical is None:
        return lines
    if ranking.friedman is not None:
        lines.append(f"Friedman's test that all are alike: p = {ranking.friedman:.2g}.")
    lines.append(
        f"Mean ranks that differ by more than {ranking.critical:.2f} differ at 0.05 (Nemenyi)."
    )
    different = [f"{a} and {b} (p = {p:.2g})" for a, b, p in ranking.wilcoxon if p and p < 0.05]
    lines.append(
        f"Wilcoxon's signed-rank test over rows, corrected by Holm, tells apart "
        f"{'; '.join(different) if different else 'no pair'}."
    )
    return lines


def markdown(found: Study) -> str:
    """The page of a study."""
    lines = [f"# {found.title}", ""]
    if found.header.notes:
        lines += [found.header.notes.strip(), ""]
    lines += [f"{caption(found)}. Written by `atoll study`; do not edit.", "", *_grid(found)]
    lines += [f"![{found.title}](table.svg)", ""]
    if found.pairs:
        lines += ["## Differences", "", f"{of_tests(found)}.", ""]
        lines += markdown_table(OF_PAIR, [pair_texts(found, pair) for pair in found.pairs])
    ranks = said_of_ranks(found)
    if ranks:
        lines += ["## Ranks", "", *(f"- {line}" for line in ranks), ""]
        if found.ranking.critical is not None:
            lines += ["![mean ranks](ranks.svg)", ""]
    lines += ["## Cells", ""]
    headings = ("row", "column", "figure", "mean", "std", "95 % interval", "values by seed")
    lines += markdown_table(headings, [_line(found, place) for place in found.found])
    if found.cautions() or found.remarks:
        lines += ["## To be known", ""]
        lines += [f"- {said}" for said in found.cautions()]
        lines += [
            f"- {said} (in {count} of {len(found.singles)} runs)"
            for said, count in sorted(found.remarks.items())
        ]
        lines += [""]
    return "\n".join(lines)


def latex(found: Study) -> str:
    """A table for ``\\usepackage{booktabs}``; the best of a row is bold."""
    head = " & ".join(["", *map(_escaped, found.columns)])
    body = []
    for row in found.rows:
        best = found.best_of(row)
        texts = [
            f"$\\mathbf{{{text}}}$" if column in best else f"${text}$"
            for column in found.columns
            for text in [cell_text(found, row, column).replace("±", r"\pm")]
        ]
        body.append(" & ".join([_escaped(row), *texts]) + r" \\")
    return "\n".join(
        [
            f"% {found.title}: {caption(found)}".replace("\n", " "),
            r"\begin{tabular}{l" + "r" * len(found.columns) + "}",
            r"\toprule",
            head + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def _grid(found: Study) -> list[str]:
    rows = []
    for row in found.rows:
        best = found.best_of(row)
        texts = [(cell_text(found, row, column), column in best) for column in found.columns]
        rows.append((row, *(f"**{text}**" if bold else text for text, bold in texts)))
    return markdown_table(("", *found.columns), rows)


def cell_text(found: Study, row: str, column: str) -> str:
    cell = found.found[row, column]
    spread = f" ± {_shown(found, row, cell.std)}" if len(cell.values) > 1 else ""
    return "-" if cell.ours != cell.ours else _shown(found, row, cell.ours) + spread


def _shown(found: Study, row: str, value: float, sign: bool = False) -> str:
    """A value of a row for people: scores with two decimals."""
    if value != value:
        return "-"
    if not is_score(found.figures[row]):
        return signed(value) if sign else short(value)
    return f"{value:+.2f}" if sign else f"{value:.2f}"


def _line(found: Study, place: tuple[str, str]) -> tuple[str, ...]:
    row, column = place
    cell = found.found[place]
    low, high = (_shown(found, row, cell.ours + way * cell.interval) for way in (-1, 1))
    span = "-" if low == "-" else f"{low} to {high}"
    values = ", ".join(_shown(found, row, value) for value in cell.values)
    middle, spread = (_shown(found, row, value) for value in (cell.ours, cell.std))
    return row, column, found.figures[row], middle, spread, span, values


def pair_texts(found: Study, pair: Pair) -> tuple[str, ...]:
    gap = pair.found
    middle, low, high = (
        "-" if value is None else _shown(found, pair.row, value, sign=True)
        for value in (gap.mean, gap.low, gap.high)
    )
    span = "-" if gap.low is None else f"{low} to {high}"
    ps = ("-" if p is None else f"{p:.2g}" for p in (gap.p, pair.p_holm))
    return pair.row, f"{pair.column} - {pair.against}", middle, span, *ps


def caption(found: Study) -> str:
    seeds = found.plan.seeds
    over = f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"
    spread = "mean ± standard deviation over " if len(seeds) > 1 else ""
    best = "lowest" if found.less_is_better else "highest"
    return f"{found.figure[0].upper()}{found.figure[1:]}, {spread}{over}; bold: {best} of its row"


def of_tests(found: Study) -> str:
    count = sum(pair.found.p is not None for pair in found.pairs)
    return (
        f"Taken seed by seed; p of a two-sided paired t-test, corrected for all {count} tests of "
        f"the table by Holm"
    )


def _escaped(text: str) -> str:
    return re.sub(r"[\\~^&%$#_{}]", lambda found: _LATEX[found[0]], text)
