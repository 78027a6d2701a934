"""Numbers as tables write them: decimal commas, thousands, and gaps to be filled."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
import polars

from atoll.data.table_files import Table
from atoll.errors import AtollError

Missing = Literal["error", "median", "mean", "indicator"]
Decimal = Literal["", ".", ","]
# A party's rows, and those of them that a filling is computed from.
Group = tuple[np.ndarray, np.ndarray]

MISSING_WORDS = ("na", "n/a", "nan", "null", "none", "?", "-")
_COMMA = r"^[+-]?\d[\d.,' \u00a0\u202f]*,\d+$|^[+-]?\d{1,3}(?:[., ]\d{3})+(?:[.,]\d+)?$"


def signed(values: polars.Series) -> polars.Series:
    """Text with ``-12`` where accounts have ``(12)`` or ``12-`` or a minus of their own."""
    text = values.str.strip_chars().str.replace(r"^\(\s*(\d.*?|[.,]\d+)\s*\)$", "-$1")
    return text.str.replace(r"^(\d[\d.,' \u00a0\u202f]*)-$", "-$1").str.replace(
        "^[\u2212\u2013]", "-"
    )


def parse_numbers(values: polars.Series, decimal: str = "") -> polars.Series:
    """Text as numbers, null where it is none; ``(12)`` and ``12-`` are below 0, as in accounts.

    With a decimal mark, thousands may be set apart by the other mark, by spaces or by apostrophes,
    three digits each; without one, by nothing.
    """
    text = signed(values)
    plain = text.cast(polars.Float64, strict=False)
    if not decimal:
        return plain
    group = f"[{re.escape(',' if decimal == '.' else '.')}' \u00a0\u202f]"
    mark = re.escape(decimal)
    whole = rf"(?:\d{{1,3}}(?:{group}\d{{3}})+|\d+)"
    form = rf"^[+-]?(?:{whole}(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?$"
    bare = text.str.replace_all(group, "").str.replace(decimal, ".", literal=True)
    marked = bare.cast(polars.Float64, strict=False)
    fits = text.str.contains(form).fill_null(False)
    return marked.zip_with(fits, polars.Series([None], dtype=polars.Float64))


def is_gap(values: polars.Series) -> polars.Series:
    """Where text is empty or a word that stands for a missing number."""
    text = polars.col("text")
    word = text.str.strip_chars().str.to_lowercase().is_in(MISSING_WORDS)
    # One query: on tables of a few rows it is queries that take the time.
    return values.to_frame("text").select(gap=text.is_null() | word)["gap"]


def comma_numbers(values: polars.Series) -> polars.Series:
    """Where text looks like a number with a decimal comma or with thousands set apart."""
    return signed(values).str.contains(_COMMA).fill_null(False)


def refuse_comma_numbers(table: Table, column: str) -> None:
    """Numbers that nobody has said how to read would become categories without a word."""
    values = table.frame[column]
    there = values.filter(~is_gap(values))
    rows = comma_numbers(values).arg_true()
    if table.decimal or not len(rows) or 2 * len(rows) < len(there):
        return
    row = int(rows[0])
    raise table.unfit(
        column,
        f"{len(rows)} of {len(there)} entries look like numbers with a comma or with thousands set "
        f"apart ('{values[row]}' in {table.place(row)}); set {table.prefix}decimal to ',' or '.', "
        f"or list the column in {table.prefix}categorical.",
    )


def filled(
    table: Table, column: str, values: np.ndarray, missing: Missing, groups: Sequence[Group]
) -> np.ndarray:
    """Numbers ``[n, 1]`` without gaps, and with ``indicator`` where the gaps were ``[n, 2]``.

    Each party's gaps get the median or mean of the numbers in its own fitting rows; of all its
    rows where those have none.
    """
    if missing == "error":
        return values
    gaps = np.isnan(values)
    result = values.copy()
    for rows, fitting in groups:
        if not gaps[rows].any():
            continue
        fill = filling(values, (rows, fitting), missing)
        if np.isnan(fill):
            raise table.unfit(
                column,
                f"the party that has {table.place(int(rows[0]))} has no number there to take the "
                f"{missing} of; leave the column out, or set {table.prefix}missing to indicator.",
            )
        result[rows] = np.where(gaps[rows], fill, values[rows])
    return _indicated(result, gaps, missing)


def filling(values: np.ndarray, group: Group, missing: Missing) -> float:
    """What a party's gaps are filled with; NaN where it has no number and needs one."""
    rows, fitting = group
    gaps = np.isnan(values)
    known = values[fitting][~gaps[fitting]]
    known = known if len(known) else values[rows][~gaps[rows]]
    if not len(known):
        return 0.0 if missing == "indicator" else float("nan")
    return float(np.mean(known) if missing == "mean" else np.median(known))


def with_fills(values: np.ndarray, fill: np.ndarray, missing: Missing) -> np.ndarray:
    """Numbers ``[n, 1]`` whose gaps get a number given for each row ``[n]``."""
    gaps = np.isnan(values)
    return _indicated(np.where(gaps, fill[:, None], values), gaps, missing)


def _indicated(values: np.ndarray, gaps: np.ndarray, missing: Missing) -> np.ndarray:
    if missing != "indicator":
        return values
    return np.concatenate([values, gaps.astype(np.float64)], axis=1)


def refuse_holes(table: Table, column: str, values: np.ndarray) -> None:
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if not len(bad):
        return
    row = int(bad[0])
    if np.isnan(values[row]).any():
        raise missing_number(table, column, row)
    raise table.problem(column, row, "the number is infinite; correct it or drop the row.")


def missing_number(table: Table, column: str, row: int) -> AtollError:
    return table.problem(
        column,
        row,
        f"the number is missing; fill it in, drop the row or leave the column out, or have "
        f"{table.prefix}missing fill it.",
    )


def single(table: Table, column: str, values: np.ndarray) -> np.ndarray:
    """Values in single precision, unless they are too large for it."""
    with np.errstate(over="ignore"):
        x = values.astype(np.float32)
    beyond = np.flatnonzero(np.isinf(x).any(axis=1))
    if len(beyond):
        row = int(beyond[0])
        raise table.problem(
            column, row, f"{np.abs(values[row]).max():g} is too large; scale the column."
        )
    return x
