"""Tables for others to read, as their file's name says."""

from __future__ import annotations

from pathlib import Path

import polars

from atoll.errors import AtollError
from atoll.files import written_whole


def check_table_name(out: Path) -> None:
    """Refuse a place that can't be written to before any work is done."""
    if out.is_dir():
        raise AtollError(f"'{out}' (--out) is a folder; name a file.")
    if out.suffix.lower() not in (".csv", ".parquet"):
        raise AtollError(f"'{out}' (--out) must end in .csv or .parquet; rename it.")


def write_table(table: polars.DataFrame, out: Path) -> None:
    """The whole table or nothing."""
    check_table_name(out)
    with written_whole(out) as part:
        if out.suffix.lower() == ".csv":
            table.write_csv(part)
        else:
            table.write_parquet(part)
