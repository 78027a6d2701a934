"""What a check of two tables found, for people; and the config it leads to."""

from __future__ import annotations

from pathlib import Path

import tomli_w
from rich.table import Table

from atoll.data.check_found import Check
from atoll.errors import AtollError
from atoll.files import written_whole

_FIRST_LINE = "# Written by atoll check; edit it, or run it as it is: atoll run"


def check_tables_table(check: Check) -> Table:
    """One row per column of both files."""
    table = Table(title="How the columns will be used" if check.columns else "No column was read")
    for name, justify in (
        ("file", "left"),
        ("column", "left"),
        ("type", "left"),
        ("missing", "right"),
        ("distinct", "right"),
        ("use", "left"),
    ):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for column in check.columns:
        table.add_row(
            column.file,
            column.column,
            column.type,
            str(column.missing),
            str(column.distinct),
            column.use,
        )
    return table


def problem_lines(check: Check) -> list[str]:
    """Errors first, then what is worth knowing."""
    errors = [p for p in check.problems if p.severity == "error"]
    notes = [p for p in check.problems if p.severity == "note"]
    lines = [f"{problem.severity}: {problem.text}" for problem in (*errors, *notes)]
    if errors:
        lines.append(f"These tables can't be used yet; errors to correct: {len(errors)}.")
    return lines


def refuse_others_file(out: Path) -> None:
    """A config that somebody else has written is never replaced."""
    if out.is_dir():
        raise AtollError(f"'{out}' is a folder; name a file with --out.")
    if out.exists() and not out.read_text(encoding="utf-8", errors="replace").startswith(
        _FIRST_LINE
    ):
        raise AtollError(f"'{out}' was not written by atoll check; name another file with --out.")


def write_config(check: Check, out: Path) -> None:
    """The config that ``atoll run`` takes as it is."""
    try:
        with written_whole(out) as part:
            text = tomli_w.dumps(check.experiment())
            part.write_text(f"{_FIRST_LINE}\n\n{text}", encoding="utf-8")
    except OSError as problem:
        raise AtollError(
            f"'{out}' can't be written ({problem.strerror}); choose another with --out."
        ) from problem
