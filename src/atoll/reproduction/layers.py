"""Settings of many cells, with what cells share written once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from atoll.experiment.config import Table

Place = tuple[str, str]  # a cell's row and column
_Item = tuple[str, str, str]  # section, key, value as JSON


@dataclass(frozen=True)
class Layers:
    """Tables by place, apart: what all cells share, those of a row, those of a column, the rest."""

    shared: Table
    rows: dict[str, Table]
    columns: dict[str, Table]
    cells: dict[Place, Table]

    def at(self, place: Place) -> Table:
        """A cell's whole table."""
        row, column = place
        whole: Table = {}
        layers = (self.shared, self.rows.get(row), self.columns.get(column), self.cells.get(place))
        for layer in layers:
            for section, values in (layer or {}).items():
                whole[section] = whole.get(section, {}) | values
        return whole


def layered(tables: Mapping[Place, Table]) -> Layers:
    """Each value goes into the widest layer whose cells all have it."""
    items = {place: _items(table) for place, table in tables.items()}
    shared = _in_all(items.values())
    columns = _by(items, lambda place: place[1], shared)
    rows = _by(items, lambda place: place[0], shared)
    # Needed in one layer only: a row leaves out what all its columns have, and the other way.
    for row, own in rows.items():
        rows[row] = own - _in_all(columns[c] for r, c in items if r == row)
    for column, own in columns.items():
        columns[column] = own - _in_all(rows[r] for r, c in items if c == column)
    return Layers(
        _table(shared),
        {row: _table(own) for row, own in rows.items() if own},
        {column: _table(own) for column, own in columns.items() if own},
        {
            (row, column): _table(rest)
            for (row, column), own in items.items()
            if (rest := own - shared - rows[row] - columns[column])
        },
    )


def _by(
    items: Mapping[Place, set[_Item]], part: Callable[[Place], str], shared: set[_Item]
) -> dict[str, set[_Item]]:
    names = dict.fromkeys(map(part, items))
    return {
        name: _in_all(own for place, own in items.items() if part(place) == name) - shared
        for name in names
    }


def _in_all(sets: Iterable[set[_Item]]) -> set[_Item]:
    several = list(sets)
    return set.intersection(*several) if several else set()


def _items(table: Table) -> set[_Item]:
    return {
        (section, key, json.dumps(value))
        for section, values in table.items()
        for key, value in values.items()
    }


def _table(items: Iterable[_Item]) -> Table:
    """In alphabetical order, names of components first."""
    table: Table = {}
    for section, key, text in sorted(items, key=lambda item: (item[0], item[1] != "name", item)):
        value: Any = json.loads(text)
        table.setdefault(section, {})[key] = value
    return table
