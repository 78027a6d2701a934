"""Dates: ISO ones are numbers; others say too little of which part is the day, and are refused."""

from __future__ import annotations

import polars

from atoll.data.table_files import Table
from atoll.data.table_numbers import is_gap

_DATE = r"^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?Z?)?$"
_DAYS_PER_YEAR = 365.25
# 31.5.2024, 05/31/24, 2024/5/31, with or without a time of day.
_TIME = r"(?:[T ]+\d{1,2}:\d{2}.*)?$"
_OTHER_DATE = (
    rf"^(?:\d{{1,2}}[./-]\d{{1,2}}[./-]\d{{4}}|\d{{2}}[./]\d{{2}}[./]\d{{2}}"
    rf"|\d{{4}}[./]\d{{1,2}}[./]\d{{1,2}}){_TIME}"
)
_MOSTLY = 0.9


def parse_dates(values: polars.Series) -> polars.Series:
    """ISO dates (and times of day) as years since the start of 2000; null where text is none."""
    if values.dtype == polars.String:
        frame = values.to_frame("text").select(polars.col("text").str.strip_chars())
        days = frame.select(days=_iso_days(polars.col("text")))["days"]
    else:
        stamps = values.cast(polars.Datetime("us")).cast(polars.Int64).cast(polars.Float64)
        days = stamps / 86_400_000_000
    return (days - 10_957) / _DAYS_PER_YEAR


def _iso_days(text: polars.Expr) -> polars.Expr:
    """Days since 1970, with their fractions, of text that is an ISO date."""
    day = text.str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False)
    parts = [text.str.slice(at, 2).cast(polars.Float64, strict=False) for at in (11, 14, 17)]
    hour, minute, second = (part.fill_null(0.0) for part in parts)
    days = day.cast(polars.Int32).cast(polars.Float64)
    days = days + hour / 24 + minute / 1440 + second / 86400
    return polars.when(text.str.contains(_DATE)).then(days)


def are_dates(values: polars.Series) -> bool:
    """Whether all text but gaps is ISO dates."""
    there = values.filter(~is_gap(values))
    return bool(len(there)) and not parse_dates(there).null_count()


def are_other_dates(values: polars.Series) -> bool:
    """Whether nearly all text looks like dates that are not written as year-month-day."""
    there = values.filter(~is_gap(values)).str.strip_chars()
    fits = int(there.str.contains(_OTHER_DATE).fill_null(False).sum())
    return fits > 0 and fits >= _MOSTLY * len(there)


def no_iso_dates(column: str, where: str, prefix: str) -> str:
    """What is wrong with such a column, and what to do."""
    return (
        f"it holds dates that are not written as year-month-day ({where}), which would become "
        f"categories; write them like 2024-05-31, or list '{column}' in {prefix}categorical."
    )


def refuse_other_dates(table: Table, column: str) -> None:
    """Dates that can be read in two ways would become categories without a word."""
    values = table.frame[column]
    if are_other_dates(values):
        row = int((~is_gap(values)).arg_true()[0])
        where = f"'{values[row]}' in {table.place(row)}"
        raise table.unfit(column, no_iso_dates(column, where, table.prefix))
