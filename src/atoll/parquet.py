"""Parquet files as tables, read so that no file can end the process.

Files come from others. On damaged ones the reader of polars panics, and now and then it aborts the
whole process; Arrow's own reader raises. So Arrow reads, every value is validated, and only plain
values become a table of polars: what a file says of them beside that is left behind.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars

_UNITS_PER_DAY = {None: 1, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
# What a value is reckoned to take in memory.
_LEAST_BYTES = 8
# In days since 1970, the last one excluded.
_YEARS_1_TO_9999 = (-719_162, 2_932_897)
_DAYS = {polars.Time: (0, 1), polars.Duration: (-999_999_999, 999_999_999)}


class NotParquet(ValueError):
    """A file that is no Parquet, or a damaged one."""


def read_parquet(source: Path | io.BytesIO) -> polars.DataFrame:
    """The whole table; categories are read as what they stand for."""
    # Only commands that read a table pay for the import.
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(source) as file:
            _refuse_larger_than_memory(file.metadata)
            table = file.read(use_threads=False)
        table.validate(full=True)
        names = table.schema.names
        if len(set(names)) < len(names):
            raise NotParquet("two columns have the same name")
        bare = pyarrow.schema([pyarrow.field(f.name, _bare(f.type)) for f in table.schema])
        frame = polars.from_arrow(table.cast(bare), rechunk=True)
    except (OSError, ValueError, LookupError, ArithmeticError, MemoryError, TypeError) as problem:
        raise NotParquet(str(problem)) from problem
    except (pyarrow.ArrowException, polars.exceptions.PolarsError) as problem:
        raise NotParquet(str(problem)) from problem
    assert isinstance(frame, polars.DataFrame)
    _refuse_dates_beyond_calendars(frame)
    return frame


def _refuse_larger_than_memory(about: Any) -> None:
    """Equal values take no room in a file: a few megabytes can be thousands of millions of rows,
    and a system that promises more memory than it has would end the process.

    ``about`` is Arrow's metadata, whose package has no types for the checker.
    """
    groups = (about.row_group(i) for i in range(about.num_row_groups))
    values = sum(g.column(j).num_values for g in groups for j in range(g.num_columns))
    if max(values, about.num_rows) * _LEAST_BYTES > memory() / 2:
        raise NotParquet(
            f"its {values:,} values in {about.num_rows:,} rows need more than half of this "
            f"machine's memory"
        )


def memory() -> float:
    """Of this machine, in bytes, where the system says it."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


def _refuse_dates_beyond_calendars(frame: polars.DataFrame) -> None:
    """Days that no calendar has end in panics wherever they are shown."""
    for column in frame:
        for values in _innermost(column):
            if values.dtype.is_temporal() and not _within_calendars(values.drop_nulls()):
                why = f"the column '{column.name}' has dates or times that there are not"
                raise NotParquet(why)


def _innermost(column: polars.Series) -> Iterator[polars.Series]:
    """A column's values, or those within its lists and structures."""
    if column.dtype == polars.List:
        yield from _innermost(column.explode())
    elif column.dtype == polars.Struct:
        for name in column.struct.fields:
            yield from _innermost(column.struct.field(name))
    else:
        yield column


def _within_calendars(values: polars.Series) -> bool:
    unit = "ns" if values.dtype == polars.Time else getattr(values.dtype, "time_unit", None)
    day = _UNITS_PER_DAY[unit]
    number = values.to_physical().to_numpy()
    first, last = _DAYS.get(values.dtype.base_type(), _YEARS_1_TO_9999)
    return not len(number) or bool(number.min() >= first * day and number.max() < last * day)


def _bare(kind: Any) -> Any:
    """A type without the notes that its writer left in it, which polars would take at their word.

    ``kind`` is a type of Arrow, whose package has no types for the checker.
    """
    import pyarrow
    from pyarrow import types

    if types.is_dictionary(kind):
        return _bare(kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pyarrow.large_list(_bare(kind.value_type))
    if types.is_struct(kind):
        return pyarrow.struct([pyarrow.field(f.name, _bare(f.type)) for f in kind])
    if types.is_timestamp(kind):  # a zone whose name is no text is an error here, a panic in polars
        return pyarrow.timestamp(kind.unit, kind.tz)
    if types.is_nested(kind) or isinstance(kind, pyarrow.BaseExtensionType):
        raise NotParquet(f"it has values of the type {kind}, which can't be used")
    return kind
