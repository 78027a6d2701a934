"""One line per column: what it holds and how it will be used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars

from atoll.data.check_files import Opened, Say
from atoll.data.table_dates import are_dates, are_other_dates, no_iso_dates
from atoll.data.table_numbers import MISSING_WORDS, is_gap, signed
from atoll.data.table_units import common_unit, has_unit

# How a column is used that holds categories although some of its entries are numbers.
LISTED = "feature: categories, as listed"
_MOST_CATEGORIES = 1000
_MOSTLY = 0.8
_TO_BE_CORRECTED = ("number with a unit", "date, not ISO")


@dataclass(frozen=True)
class Profile:
    """A column of one of the two files."""

    file: str
    column: str
    type: str
    missing: int
    distinct: int
    use: str


def profiles(
    file: Opened,
    side: str,
    roles: Mapping[str, str],
    error: Say | None = None,
    note: Say | None = None,
) -> list[Profile]:
    """Every column of a table; what is wrong with a feature is said."""
    result = []
    for column in file.frame.columns:
        kind, gaps = _kind(file, column)
        values = file.text(column)
        distinct = values.filter(~gaps).n_unique()
        if column in roles:
            gaps = values.is_null()
            use = roles[column]
            kind = "text" if use in ("id", "source", "target") else kind
        elif side == "edges":
            use = "not used"
        else:
            use = _use(kind, distinct, len(values))
            if kind == "number":
                _odd_entries(file, column, gaps, error)
            if kind in _TO_BE_CORRECTED and error is not None:
                _unreadable(file, column, kind, gaps, error)
        if note is not None and use.startswith("left out"):
            note(f"the column '{column}' is {use}.{_mixture(file, column, kind)}", 1)
        if note is not None and use == "feature: number":
            _codes(file, column, note)
            _signs(file, column, note)
        if note is not None and use in ("owner", "feature: categories"):
            _unknowns(file, column, note)
        if note is not None and use in ("label", "owner", "feature: categories"):
            _twins(file, column, note)
        result.append(Profile(side, column, kind, int(gaps.sum()), distinct, use))
    return result


def sample_of(file: Opened, values: polars.Series, rows: polars.Series) -> str:
    """The first of some rows, to look it up by."""
    row = int(rows[0])
    return f"first: '{values[row]}' in {file.table.place(row)}"


def _kind(file: Opened, column: str) -> tuple[str, polars.Series]:
    """What a column holds, and where it holds nothing."""
    values = file.frame[column]
    if values.dtype != polars.String:
        if values.dtype == polars.Boolean:
            kind = "yes or no"
        elif values.dtype.is_numeric():
            return "number", values.is_null() | values.cast(polars.Float64).is_nan().fill_null(
                False
            )
        else:
            kind = "date" if values.dtype.is_temporal() else str(values.dtype).lower()
        return kind, values.is_null()
    gaps = is_gap(values)
    there = values.filter(~gaps)
    if not len(there):
        return "empty", gaps
    if file.table.typed:
        return "text", values.is_null()
    if are_dates(values):
        return "date", gaps
    if common_unit(values):
        return "number with a unit", gaps
    if are_other_dates(values):
        return "date, not ISO", gaps
    parsed = len(there) - file.numbers(column).filter(~gaps).null_count()
    if parsed >= _MOSTLY * len(there):
        return "number", gaps
    return ("text and numbers" if parsed else "text"), values.is_null()


def _use(kind: str, distinct: int, rows: int) -> str:
    if kind in _TO_BE_CORRECTED:
        return "to be corrected"
    if kind == "empty":
        return "left out: empty"
    if distinct < 2:
        return "left out: always the same"
    if kind == "number":
        return "feature: number"
    if kind == "date":
        return "feature: years since 2000"
    if distinct > _MOST_CATEGORIES or (distinct > 20 and 2 * distinct > rows):
        mixed = kind == "text and numbers"
        return f"left out: {'text among numbers' if mixed else 'too many different texts'}"
    if kind == "text and numbers":
        return LISTED
    return "feature: categories" if kind in ("text", "yes or no") else "feature: vector"


def _unreadable(file: Opened, column: str, kind: str, gaps: polars.Series, error: Say) -> None:
    """Text that is meant as numbers, but does not say which."""
    values, rows = file.text(column), (~gaps).arg_true()
    where, prefix = sample_of(file, values, rows), file.table.prefix
    if kind == "date, not ISO":
        what = no_iso_dates(column, where, prefix)
    else:
        what = has_unit(column, common_unit(values), where, prefix)
    error(f"'{file.path}', column '{column}': {what}", len(rows))


def _codes(file: Opened, column: str, note: Say) -> None:
    """Postal codes and the like: numbers by their look, but nothing to reckon with."""
    values = file.text(column)
    rows = values.str.strip_chars().str.contains(r"^0\d+$").fill_null(False).arg_true()
    if len(rows) and file.frame[column].dtype == polars.String:
        note(
            f"the column '{column}' is a number although {len(rows)} of its entries begin with 0, "
            f"as codes do ({sample_of(file, values, rows)}); list it in data.categorical, or leave "
            f"it out of data.features, if it is a code.",
            len(rows),
        )


def _signs(file: Opened, column: str, note: Say) -> None:
    """What stands in brackets may be a remark as well."""
    if file.frame[column].dtype != polars.String:
        return
    values = file.text(column)
    plain = values.str.strip_chars()
    rows = (plain != signed(values)).fill_null(False).arg_true()
    if len(rows):
        note(
            f"the column '{column}' has {len(rows)} numbers with the sign of accounts "
            f"({sample_of(file, values, rows)}); they are read as negative.",
            len(rows),
        )


def _unknowns(file: Opened, column: str, note: Say) -> None:
    """Words that likely stand for nothing, but are categories as good as any."""
    values = file.text(column)
    plain = values.str.strip_chars()
    rows = plain.str.to_lowercase().is_in(MISSING_WORDS).fill_null(False)
    if rows.any():
        counts = plain.filter(rows).value_counts(sort=True, name="times").sort("times", column)
        words = ", ".join(f"'{word}' {times} times" for word, times in counts.rows()[::-1])
        note(
            f"the column '{column}' has words for nothing known ({words}), which count as "
            f"names like any other; empty these entries if they are unknown.",
            int(rows.sum()),
        )


def _mixture(file: Opened, column: str, kind: str) -> str:
    """How much of a column that is text and numbers is which."""
    if kind != "text and numbers":
        return ""
    values, numbers = file.text(column), file.numbers(column).is_not_null()
    rows = (~numbers & values.is_not_null() & ~is_gap(values)).arg_true()
    what = sample_of(file, values, rows) if len(rows) else "the others are empty"
    return f" {int(numbers.sum())} of {len(values)} entries are numbers, {len(rows)} text ({what})."


def _twins(file: Opened, column: str, note: Say) -> None:
    """Names that were likely meant to be one."""
    names = file.text(column).drop_nulls().unique().sort()
    bare = names.str.strip_chars().str.to_lowercase()
    twins = names.filter(bare.is_in(bare.filter(bare.is_duplicated()).implode()))
    if len(twins):
        listed = ", ".join(f"'{name}'" for name in twins[:4])
        note(
            f"the column '{column}' has names that differ in case or spaces only and count as "
            f"different: {listed}.",
            len(twins),
        )


def _odd_entries(file: Opened, column: str, gaps: polars.Series, error: Say | None) -> None:
    values = file.text(column)
    odd = (~gaps & file.numbers(column).is_null()).arg_true()
    if len(odd) and error is not None:
        error(
            f"'{file.path}', column '{column}': {len(odd)} of {len(values)} entries are no "
            f"numbers, as the others are ({sample_of(file, values, odd)}); correct or empty them.",
            len(odd),
        )
