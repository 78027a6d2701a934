"""Numbers with a unit, such as ``12 kg``, ``€ 5`` and ``30%``: text, but no categories."""

from __future__ import annotations

import polars

from atoll.data.table_files import Table
from atoll.data.table_numbers import is_gap, signed

_NUMBER = r"[+-]?\d[\d.,'\u00a0\u202f]*(?: \d{3})*(?:[eE][+-]?\d+)?"
_BEFORE = r"[€$£¥₹]|EUR|USD|GBP|CHF|JPY|CNY|INR|PLN|CZK|SEK|NOK|DKK|AUD|CAD"
_AFTER = r"[%‰€$£¥₹]|°?[A-Za-zµ²³][A-Za-zµ²³/0-9]{0,11}\.?"
_WITH_UNIT = rf"^(?:(?:{_BEFORE})\s*{_NUMBER}|{_NUMBER}\s*(?:{_AFTER}))$"
_MOSTLY = 0.9


def common_unit(values: polars.Series) -> str:
    """The unit that nearly all entries of a column of text have, empty if there is none."""
    there = signed(values.filter(~is_gap(values)))
    fits = there.filter(there.str.contains(_WITH_UNIT).fill_null(False))
    if not len(fits) or len(fits) < _MOSTLY * len(there):
        return ""
    bare = fits.str.replace(_NUMBER, "").str.strip_chars()
    unit, count = bare.value_counts(sort=True).row(0)
    # Codes such as 1a, 1b and 2a have no unit; nor has one number only, however often.
    return str(unit) if count >= _MOSTLY * len(there) and fits.n_unique() > 1 else ""


def has_unit(column: str, unit: str, where: str, prefix: str) -> str:
    """What is wrong with such a column, and what to do."""
    return (
        f"it holds numbers with the unit '{unit}' ({where}), which would become categories; write "
        f"the numbers alone (and the unit into the column's name), or list '{column}' in "
        f"{prefix}categorical."
    )


def refuse_units(table: Table, column: str) -> None:
    """Numbers that carry a unit would become categories without a word."""
    values = table.frame[column]
    unit = common_unit(values)
    if unit:
        row = int((~is_gap(values)).arg_true()[0])
        where = f"'{values[row]}' in {table.place(row)}"
        raise table.unfit(column, has_unit(column, unit, where, table.prefix))
