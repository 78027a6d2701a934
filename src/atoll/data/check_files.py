"""A file to be checked: its separator and decimal mark guessed, its lines counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import polars

from atoll.data.reading import existing_file
from atoll.data.table_files import Table, read_table, records
from atoll.data.table_numbers import comma_numbers, is_gap, parse_numbers
from atoll.errors import AtollError

Say = Callable[[str, int], None]

_SEPARATORS = (",", ";", "\t", "|")
_LOOKED_AT = 200


@dataclass(frozen=True, eq=False)
class Opened:
    """A table as it is written, and how its file is read."""

    path: str
    table: Table
    separator: str = ","

    @property
    def frame(self) -> polars.DataFrame:
        return self.table.frame

    def text(self, column: str) -> polars.Series:
        """A column as text, null where it is empty."""
        values = self.frame[column]
        if isinstance(values.dtype, polars.List | polars.Array):
            return values.cast(polars.List(polars.String)).list.join(" ")
        plain = values if values.dtype == polars.String else values.cast(polars.String)
        return plain.replace("", None)

    def numbers(self, column: str) -> polars.Series:
        """A column as numbers, null where it holds none."""
        values = self.frame[column]
        if values.dtype == polars.String:
            return parse_numbers(values, self.table.decimal)
        return values.cast(polars.Float64, strict=False)


def open_file(path: str | Path, side: str, error: Say, note: Say) -> Opened:
    """A file with its separator and decimal mark guessed; lines that do not fit are left out."""
    file = existing_file(path, side, "CSV or Parquet", f"the {side}")
    if file.suffix.lower() not in (".csv", ".tsv", ".txt"):
        return Opened(str(path), read_table(file, side))
    separator = "\t" if file.suffix.lower() == ".tsv" else _guess_separator(file)
    table = _table(file, separator, error)
    decimal = _guess_decimal(table, note)
    return Opened(str(path), replace(table, decimal=decimal), separator)


def _guess_separator(file: Path) -> str:
    """The separator by which the first lines have the most fields, as many in each."""

    def fit(separator: str) -> tuple[float, int]:
        lengths = Counter(
            len(record) for _, record in islice(records(file, separator), _LOOKED_AT) if record
        )
        (fields, count), *_ = lengths.most_common(1) or [(1, 1)]
        return (count / lengths.total() if fields > 1 else 0.0), fields

    return max(_SEPARATORS, key=fit)


def _table(file: Path, separator: str, error: Say) -> Table:
    """All columns as text, as they are written."""
    with file.open("rb") as opened:
        if b"\0" in opened.read(4096):
            raise AtollError(f"'{file}' is not text; write it as CSV, or as Parquet by its name.")
    lines = iter(records(file, separator))
    _, header = next(lines, (1, []))
    if not any(name.strip() for name in header):
        raise AtollError(f"'{file}' is empty; its first line must name the columns.")
    names: list[str] = []
    for place, name in enumerate(header, start=1):
        if not name.strip():
            error(f"'{file}', line 1: column {place} has no name; name it.", 1)
        elif name in names:
            error(f"'{file}', line 1: two columns are called '{name}'; rename one.", 1)
        names.append(name if name.strip() and name not in names else f"column {place}")
    rows, places, odd = [], [], []
    for line, record in lines:
        if not any(record):
            continue
        if len(record) != len(names):
            odd.append(line)
            continue
        rows.append(record)
        places.append(line)
    if odd:
        error(
            f"'{file}': {len(odd)} of {len(odd) + len(rows)} lines have more or fewer than the "
            f"{len(names)} fields that the header names (first: line {odd[0]}); correct them (text "
            f"with a separator in it needs quotes).",
            len(odd),
        )
    if not rows:
        raise AtollError(f"'{file}' has no rows below its header that fit it; give a table.")
    frame = polars.DataFrame(rows, schema=dict.fromkeys(names, polars.String), orient="row")
    frame = frame.with_columns(polars.all().replace("", None))
    return Table(frame, f"'{file}'", lambda row: f"line {places[row]}", typed=False)


def _guess_decimal(table: Table, note: Say) -> str:
    """The decimal mark by which most of what looks like a number is one; none if points do."""
    total: Counter[str] = Counter()
    ambiguous = []
    for column in table.frame.columns:
        values = table.frame[column].filter(~is_gap(table.frame[column]))
        if 2 * int(comma_numbers(values).sum()) < len(values) or not len(values):
            continue
        read = {mark: len(values) - parse_numbers(values, mark).null_count() for mark in (",", ".")}
        total.update(read)
        if read[","] == read["."]:
            ambiguous.append((column, values[0]))
    if not total:
        return ""
    mark = "," if total[","] > total["."] else "."
    if ambiguous and total[","] == total["."]:
        column, example = ambiguous[0]
        note(
            f"{table.source}, column '{column}': in '{example}' the comma is taken to set "
            f"thousands apart; set data.decimal to ',' if it is the decimal mark.",
            len(ambiguous),
        )
    return mark
