"""Files of kept cells, one per recipe.

Besides one line per cell with a value per seed, a file says what the cells were run with: under
``shared`` what holds for all of them, under ``rows`` and ``columns`` what holds for those of a row
or column, and with a cell what holds for it alone. Sections are those of a config, and
``environment``; ``tuning`` is what a search of their settings could spend. What was published is
not in there: the recipe says it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from atoll.errors import AtollError
from atoll.files import held, write_text
from atoll.reproduction.cells import Cell
from atoll.reproduction.layers import Layers, Place, layered
from atoll.reproduction.recipe import Recipe

# Keeping a cell takes milliseconds; a disk that is slow must not lose one.
_PATIENCE = 60.0


def load_cells(out: Path, recipe: Recipe) -> dict[Place, Cell]:
    """What is kept of a recipe, by row and column, in its order."""
    path = out / f"{recipe.name}.json"
    if not path.is_file():
        return {}
    try:
        return cells_of(recipe, path.read_text())
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise AtollError(
            f"the kept results '{path}' can't be read ({problem!r}); move the file away and run "
            f"the table again."
        ) from problem


def store_cells(out: Path, recipe: Recipe, cells: Iterable[Cell]) -> None:
    """Keep cells beside those that are kept already, in the recipe's order."""
    path = out / f"{recipe.name}.json"
    # Read anew each time, and by one process at a time: another may be at work on other rows.
    with held(path.parent, seconds=_PATIENCE):
        kept = load_cells(out, recipe) | {(cell.row, cell.column): cell for cell in cells}
        order = [place for t in recipe.targets if (place := (t.row, t.column)) in kept]
        write_text(path, text_of([kept[place] for place in order]))


def cells_of(recipe: Recipe, text: str) -> dict[Place, Cell]:
    """The cells that a file's text holds."""
    document = json.loads(text)
    lines = {(line["row"], line["column"]): line for line in document["cells"]}
    layers = Layers(
        document["shared"],
        document["rows"],
        document["columns"],
        {place: line.get("settings", {}) for place, line in lines.items()},
    )
    found = {}
    for target in recipe.targets:
        place = (target.row, target.column)
        if place in lines:
            line, settings = lines[place], layers.at(place)
            found[place] = Cell(
                target=target,
                values=tuple(line["values"]),
                best_rounds=tuple(line.get("best_rounds", ())),
                seconds=line["seconds"],
                environment=settings.pop("environment"),
                budget=settings.pop("tuning", None),
                settings=settings,
                array=line.get("array"),
                chosen=line.get("chosen", {}),
                val=line.get("val"),
                costs=line.get("costs", {}),
            )
    return found


def text_of(cells: Sequence[Cell]) -> str:
    """JSON whose lines are what may change: a section, a row, a column, a cell."""
    tables = {(c.row, c.column): _table(c) for c in cells}
    layers = layered(tables)
    parts = {
        "shared": _object(layers.shared),
        "rows": _object(layers.rows),
        "columns": _object(layers.columns),
        "cells": _list(_line(cell, layers) for cell in cells),
    }
    return "{\n" + ",\n".join(f'"{name}": {part}' for name, part in parts.items()) + "\n}\n"


def _table(cell: Cell) -> dict[str, Any]:
    """All that cells may share."""
    tuning = {} if cell.budget is None else {"tuning": cell.budget}
    return {**cell.settings, **tuning, "environment": cell.environment}


def _line(cell: Cell, layers: Layers) -> dict[str, Any]:
    own = {
        "settings": layers.cells.get((cell.row, cell.column)),
        "array": cell.array,
        # Studies that choose no round say 0.
        "best_rounds": cell.best_rounds if any(cell.best_rounds) else None,
        "chosen": cell.chosen or None,
        "val": cell.val,
        "costs": cell.costs or None,
    }
    return {
        "row": cell.row,
        "column": cell.column,
        "values": cell.values,
        "seconds": cell.seconds,
        **{name: value for name, value in own.items() if value is not None},
    }


def _object(entries: Mapping[str, Any]) -> str:
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in entries.items()]
    return "{\n" + ",\n".join(lines) + "\n}" if lines else "{}"


def _list(entries: Iterable[Any]) -> str:
    return "[\n" + ",\n".join(f"  {json.dumps(entry)}" for entry in entries) + "\n]"
