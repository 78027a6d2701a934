"""Several readings of one published number, and what is known of those that don't come out.

A paper that leaves a setting open is run in more than one way, so that several cells stand beside
one number of the paper. A recipe says which::

    [readings]
    table = "nobody/table-1"              # the recipe whose numbers these are; this one if left out
    rows = { cora-as-long = "cora" }      # this row has the numbers of that one
    columns = { first = "loc" }

and, for cells outside their tolerance, what was found::

    [[outside]]
    rows = ["cora"]                       # none named: all; columns likewise
    columns = ["fed-avg"]
    because = "..."                       # something measured
    explained = false                     # where what was tried does not explain it
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from atoll.errors import AtollError, unknown
from atoll.experiment.fields import build

# A published number: its recipe, row and column.
Number = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class Readings:
    """Which rows and columns have the published numbers of which others."""

    table: str = ""
    rows: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)

    def number(self, recipe: str, row: str, column: str) -> Number:
        """What identifies the number that a cell is compared with."""
        return (self.table or recipe, self.rows.get(row, row), self.columns.get(column, column))


@dataclass(frozen=True, kw_only=True)
class Remark:
    """What was found about cells that are outside; without a name it is about all."""

    because: str
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    explained: bool = True

    def concerns(self, row: str, column: str) -> bool:
        return (not self.rows or row in self.rows) and (not self.columns or column in self.columns)


def readings_of(
    name: str, given: Mapping[str, Any], places: Collection[tuple[str, str]]
) -> Readings:
    known = {"rows": {row for row, _ in places}, "columns": {column for _, column in places}}
    maps = {part: given.get(part, {}) for part in known}
    for part, names in maps.items():
        if not isinstance(names, Mapping):
            raise AtollError(
                f"{name} readings.{part} is {names!r}; write which is which, as in a section."
            )
        for one in names:
            if one not in known[part]:
                raise unknown(f"{part[:-1]} in readings of {name}:", one, known[part])
    rest = {key: value for key, value in given.items() if key not in maps}
    return build(Readings, f"{name} readings", rest, maps)


def remarks_of(
    name: str, given: Sequence[Mapping[str, Any]], places: Collection[tuple[str, str]]
) -> tuple[Remark, ...]:
    remarks = tuple(build(Remark, f"{name} outside", entry) for entry in given)
    for remark in remarks:
        for at, names, what in ((0, remark.rows, "row"), (1, remark.columns, "column")):
            known = {place[at] for place in places}
            for one in names:
                if one not in known:
                    raise unknown(f"{what} in outside of {name}:", one, known)
    return remarks
