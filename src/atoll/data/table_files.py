"""CSV and Parquet files as tables that can name the place of a mistake."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import polars

from atoll.data.reading import existing_file, first_line
from atoll.data.table_text import UTF_8, encoding_of
from atoll.errors import AtollError, unknown
from atoll.parquet import NotParquet, read_parquet

_CSV = (".csv", ".tsv", ".txt")
_PARQUET = (".parquet", ".pq")
_LISTED_AT_MOST = 40
# What may stand between the columns of a file.
_SEPARATORS = (";", "\t", "|", ",")


@dataclass(frozen=True, eq=False)
class Table:
    """Rows and columns, and how to name a place among them to whoever made them.

    ``typed`` says that text is text on purpose: a CSV file can't tell 12 from "12", Parquet can.
    ``prefix`` stands before the name of an option in a message, ``decimal`` in the numbers of a
    CSV file, where that is said.
    """

    frame: polars.DataFrame
    source: str
    place: Callable[[int], str]
    typed: bool = True
    noun: str = "column"
    prefix: str = "data."
    decimal: str = ""

    def column(self, name: str, option: str) -> polars.Series:
        """A column by the name an option gives."""
        if name in self.frame.columns:
            return self.frame[name]
        known = [column for column in self.frame.columns if column]
        if len(known) > _LISTED_AT_MOST:
            known = get_close_matches(name, known, n=5, cutoff=0.0)
        if name == option:
            # The default is not a misspelling, so a similar name means nothing.
            raise AtollError(
                f"{self.source} has no {self.noun} '{name}'; set {self.prefix}{option} to the one "
                f"that plays its part (there is: {', '.join(known)})."
            )
        raise unknown(f"{self.noun} of {self.source} ({self.prefix}{option})", name, known)

    def problem(self, column: str, row: int, what: str) -> AtollError:
        """An error about one cell."""
        return AtollError(f"{self.source}, {self.noun} '{column}', {self.place(row)}: {what}")

    def unfit(self, column: str, what: str) -> AtollError:
        """An error about a whole column."""
        return AtollError(f"{self.source}, {self.noun} '{column}': {what}")


def read_table(
    path: str | Path,
    option: str,
    *,
    separator: str = ",",
    text: Collection[str] = (),
    may_be_empty: bool = False,
    decimal: str = "",
) -> Table:
    """A table from a file; columns in ``text`` are read as they are written, never as numbers."""
    file = existing_file(path, option, "CSV or Parquet", f"the {option}")
    if file.suffix.lower() in _PARQUET:
        table = _read_parquet(file)
    elif file.suffix.lower() in _CSV:
        table = _read_csv(file, "\t" if file.suffix.lower() == ".tsv" else separator, text, decimal)
    else:
        raise AtollError(
            f"'{file}' (data.{option}) is neither CSV nor Parquet by its name; give a file that "
            f"ends in .csv, .tsv or .parquet."
        )
    if table.frame.is_empty() and not may_be_empty:
        raise AtollError(f"'{file}' has no rows below its header; give a table with {option}.")
    return table


def _read_parquet(file: Path) -> Table:
    try:
        frame = read_parquet(file)
    except NotParquet as problem:
        raise AtollError(
            f"'{file}' can't be read as Parquet ({first_line(problem)}); write it anew, or end "
            f"its name in .csv if it is CSV."
        ) from problem
    return Table(frame, f"'{file}'", lambda row: f"row {row + 1}")


def _read_csv(file: Path, separator: str, text: Collection[str], decimal: str) -> Table:
    header = _header(file, separator)
    encoding = encoding_of(file)
    try:
        frame = polars.read_csv(
            file if encoding == UTF_8 else io.BytesIO(file.read_text(encoding).encode()),
            separator=separator,
            # Where a comma is the decimal mark, a point sets thousands apart: 1.234 is not 1.234.
            infer_schema=decimal != ",",
            infer_schema_length=None,
            schema_overrides={name: polars.String for name in text if name in header},
            glob=False,
        )
    except (OSError, polars.exceptions.PolarsError) as problem:
        _refuse_ragged(file, separator, len(header))
        raise AtollError(
            f"'{file}' can't be read as CSV ({first_line(problem)}); write it anew as UTF-8 text."
        ) from problem
    if frame.height and frame[:, -1].null_count():
        # A line that ends early looks like one whose last fields are empty.
        _refuse_ragged(file, separator, len(header))
    texts = polars.selectors.string()
    frame = frame.with_columns(texts.replace("", None))
    # Blank lines, and lines of separators alone as spreadsheets leave them.
    filled = ~frame.select(polars.all_horizontal(polars.all().is_null())).to_series().to_numpy()
    records = np.flatnonzero(filled)
    return Table(
        frame.filter(filled),
        f"'{file}'",
        lambda row: f"line {_line(file, separator, int(records[row]))}",
        typed=False,
        decimal=decimal,
    )


def _header(file: Path, separator: str) -> list[str]:
    with file.open("rb") as opened:
        start = opened.read(4096)
    if start.startswith(b"PAR1") or b"\0" in start:
        raise AtollError(
            f"'{file}' is not text; end its name in .parquet if it is Parquet, or write it as CSV."
        )
    header = next((record for _, record in records(file, separator)), [])
    if not any(name.strip() for name in header):
        raise AtollError(f"'{file}' is empty; its first line must name the columns.")
    others = [mark for mark in _SEPARATORS if mark != separator and mark in header[0]]
    if len(header) == 1 and others:
        raise AtollError(
            f"'{file}', line 1 is one column when read with '{separator}' between columns; set "
            f"separator (for edges: edges_separator) to {json.dumps(others[0])}, or let 'atoll "
            f"check' find it."
        )
    for position, name in enumerate(header):
        if not name.strip():
            raise AtollError(
                f"'{file}', line 1: column {position + 1} has no name; name it, or write the file "
                f"without its row index."
            )
        if name in header[:position]:
            raise AtollError(f"'{file}', line 1: two columns are called '{name}'; rename one.")
    return header


def records(file: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Each record of a CSV file with the line it begins on; a quoted field may span lines."""
    try:
        with file.open(encoding=encoding_of(file), newline="") as opened:
            reader = csv.reader(opened, delimiter=separator)
            begins = 1
            for record in reader:
                yield begins, record
                begins = reader.line_num + 1
    except (csv.Error, OSError) as problem:
        raise AtollError(
            f"'{file}' can't be read as CSV ({first_line(problem)}); write it anew as UTF-8 text."
        ) from problem


def _refuse_ragged(file: Path, separator: str, columns: int) -> None:
    for line, record in records(file, separator):
        if record and len(record) != columns:
            raise AtollError(
                f"'{file}', line {line} has {len(record)} fields, but the header names {columns} "
                f"columns; correct the line (text with a separator in it needs quotes)."
            )


def _line(file: Path, separator: str, record: int) -> int:
    """The line of a record counted from 0 below the header; looked up only for messages."""
    for position, (line, _) in enumerate(records(file, separator)):
        if position == record + 1:
            return line
    return record + 2


def free_name(wanted: str, taken: Collection[str]) -> str:
    """The wanted name of a column, made longer while it is taken."""
    while wanted in taken:
        wanted += "_"
    return wanted
