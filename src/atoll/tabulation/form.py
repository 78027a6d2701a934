"""A study as a researcher writes it: what all runs share, rows, columns, seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from atoll.errors import AtollError, unknown
from atoll.experiment.config import SECTIONS, Table, merged, read_table, resolve
from atoll.experiment.fields import build
from atoll.methods.base import methods
from atoll.options import check_options, option
from atoll.tabulation.axes import Entry, entries, sections

Place = tuple[str, str]  # row, column


@dataclass(frozen=True, kw_only=True)
class Header:
    """What holds for the whole table.

    ``figure`` is the number in its cells: any figure of a run (``test_macro_f1``, ``bytes_up``,
    ``test_accuracy@20`` in round 20); by default the test score by which each row's best round is
    chosen. ``better`` says whether more of it or less is better; ``auto``: less of losses, bytes
    and rounds. ``baseline`` is the column that the others are tested against; without one, each
    column is tested against each. ``plot`` is how the table is drawn.
    """

    title: str = ""
    notes: str = ""
    seeds: int = option(5, at_least=1)
    baseline: str = ""
    figure: str = ""
    better: Literal["auto", "more", "less"] = "auto"
    plot: Literal["bars", "lines", "boxes", "curves"] = "bars"

    def __post_init__(self) -> None:
        check_options("study", self)


@dataclass(frozen=True)
class Form:
    """A study: its cells' settings by row and column, and where each stands in a plot."""

    name: str
    header: Header
    cells: dict[Place, Table]
    rows: tuple[Entry, ...]
    columns: tuple[Entry, ...]


def read_form(source: str | Path | Mapping[str, Any]) -> Form:
    """A study from a TOML file, or from a dictionary of the same shape; all of it is checked."""
    if isinstance(source, Mapping):
        return make_form("study", source)
    path = Path(source)
    return make_form(path.stem, read_table(path))


def make_form(name: str, given: Mapping[str, Any]) -> Form:
    table = dict(given)
    shared = sections("settings", table.pop("settings", {}))
    rows = entries("rows", table.pop("rows")) if "rows" in table else [Entry("all", {})]
    columns = entries("columns", table.pop("columns")) if "columns" in table else [Entry("all", {})]
    own = _own(table.pop("cells", {}), rows, columns)
    astray = [section for section in table if section in SECTIONS]
    if astray:
        raise AtollError(
            f"'{name}' has a section [{astray[0]}], as the config of one run has; in a study, what "
            f"all runs share stands under [settings], beside [rows] and [columns]."
        )
    header = build(Header, "study", table)
    for part, several in (("rows", rows), ("columns", columns)):
        _refuse_twins(part, [entry.label for entry in several])
    labels = [column.label for column in columns]
    if header.baseline and header.baseline not in labels:
        raise unknown("column as study.baseline:", header.baseline, labels)
    cells = {
        (row.label, column.label): _cell(shared, row, column, own.get((row.label, column.label)))
        for row in rows
        for column in columns
    }
    return Form(name, header, cells, tuple(rows), tuple(columns))


def _cell(shared: Table, row: Entry, column: Entry, own: Table | None) -> Table:
    """The later win: what all share, the row, the column, the cell itself."""
    whole = merged(shared, row.settings, column.settings, own or {})
    if "name" not in whole.get("method", {}):
        whole = merged(whole, {"method": {"name": _called_after(column)}})
    try:
        resolve(whole)
    except AtollError as problem:
        raise AtollError(f"row '{row.label}', column '{column.label}': {problem}") from problem
    return whole


def _called_after(column: Entry) -> str:
    """A column that names no method is called after its method."""
    name = column.name or column.label
    full = methods.full_name(name)
    if full not in set(methods):
        near = str(unknown("method", name, methods)).partition("': ")[2]
        raise AtollError(
            f"no method is named for the column '{name}', nor is it called after one "
            f"({near.rstrip('?.')}); write method = '...' there or under [settings]."
        )
    return full


def _own(given: Any, rows: list[Entry], columns: list[Entry]) -> dict[Place, Table]:
    """Settings of single cells: ``[cells.ROW.COLUMN]``."""
    found: dict[Place, Table] = {}
    known = {entry.label for entry in rows}, {entry.label for entry in columns}
    for row, several in sections_by_label("cells", given, known[0]).items():
        for column, own in sections_by_label(f"cells.{row}", several, known[1]).items():
            found[row, column] = sections(f"cells.{row}.{column}", own)
    return found


def sections_by_label(where: str, given: Any, known: set[str]) -> Mapping[str, Any]:
    """A table whose keys are labels that there are."""
    if not isinstance(given, Mapping):
        raise AtollError(f"{where} is {given!r}; write it as [cells.ROW.COLUMN].")
    for label in given:
        if label not in known:
            raise unknown(f"{'column' if '.' in where else 'row'} in {where}:", label, known)
    return given


def _refuse_twins(part: str, labels: list[str]) -> None:
    for label in labels:
        if labels.count(label) > 1:
            raise AtollError(f"two of the {part} are called '{label}'; name each differently.")
