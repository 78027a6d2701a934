"""Rows and columns of a study: named ones, and settings that take several values."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atoll.errors import AtollError, unknown
from atoll.experiment.choices import data_table
from atoll.experiment.config import SECTIONS, Table, merged, section_and_key

# Sections whose component has a name, which may stand for the section.
_NAMED = ("data", "partition", "task", "model", "optimizer", "method")


@dataclass(frozen=True)
class Entry:
    """A row or a column: its label, its settings, and its place on an axis of numbers.

    ``rest`` is the label without that number, ``name`` what its author calls it, without settings.
    """

    label: str
    settings: Table
    x: float | None = None
    rest: str = ""
    name: str = ""


def entries(part: str, given: Any) -> list[Entry]:
    """The rows or columns that a study's section ``part`` describes, in its order.

    A key that is a section (``data``) or a setting (``optimizer.lr``) has a list of values; any
    other key is a label with settings of its own. Several of these are crossed, each with each.
    """
    if not isinstance(given, Mapping):
        raise AtollError(
            f"{part} is {given!r}; write a section, e.g. [{part}] with data = ['digits', 'cora']."
        )
    named = [
        Entry(label, sections(f"{part}.{label}", own), rest=label, name=label)
        for label, own in given.items()
        if not _is_setting(label)
    ]
    axes = [named] if named else []
    for key, values in given.items():
        if _is_setting(key):
            axes += list(_axes(part, key, values))
    found = [_crossed(point) for point in itertools.product(*axes)] if axes else []
    if not found:
        raise AtollError(f"{part} is empty; name at least one, or leave the section out.")
    return found


def sections(where: str, given: Any) -> Table:
    """Settings by section; a text stands for the name of the section's component."""
    if not isinstance(given, Mapping):
        raise AtollError(f"{where} is {given!r}; write settings, e.g. data = 'digits'.")
    whole: Table = {}
    for section, values in given.items():
        if section not in SECTIONS:
            raise unknown(f"section in {where}:", section, SECTIONS)
        whole = merged(whole, _section(f"{where}.{section}", section, values))
    return whole


def _section(where: str, section: str, values: Any) -> Table:
    if isinstance(values, str) and section in _NAMED:
        return data_table(values) if section == "data" else {section: {"name": values}}
    if not isinstance(values, Mapping):
        raise AtollError(
            f"{where} is {values!r}; write a table, e.g. run = {{ rounds = 20 }}"
            f"{', or a name' if section in _NAMED else ''}."
        )
    return {section: dict(values)}


def _is_setting(key: str) -> bool:
    return key.partition(".")[0] in SECTIONS


def _axes(part: str, key: str, values: Any) -> Iterator[list[Entry]]:
    """One axis for a section's names, or one per setting in it."""
    if isinstance(values, Mapping) and key in SECTIONS:
        for inner, several in values.items():
            yield _axis(part, f"{key}.{inner}", several)
    else:
        yield _axis(part, key, values)


def _axis(part: str, key: str, values: Any) -> list[Entry]:
    if not isinstance(values, list | tuple) or not values:
        raise AtollError(
            f"{part}.{key} is {values!r}; write a list of values, or put it under [settings]."
        )
    return [_entry(part, key, value) for value in values]


def _entry(part: str, key: str, value: Any) -> Entry:
    if key in SECTIONS:
        own = _section(f"{part}.{key}", key, value)
        label = Path(value).name if isinstance(value, str) else _options(own[key])
        return Entry(label, own, rest=label)
    section, name = section_and_key(key)
    label = f"{name}={_plain(value)}"
    if section not in SECTIONS:
        raise unknown(f"section in {part}:", section, SECTIONS)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return Entry(
        label,
        {section: {name: value}},
        float(value) if number else None,
        "" if number else label,
    )


def _options(values: Mapping[str, Any]) -> str:
    """``fed-prox mu=0.1``: a component's name and its options."""
    words = [str(values["name"])] if "name" in values else []
    return " ".join(words + [f"{k}={_plain(v)}" for k, v in values.items() if k != "name"])


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _crossed(point: tuple[Entry, ...]) -> Entry:
    """One value of each axis together; the last axis of numbers is the one to draw over."""
    numbers = [entry for entry in point if entry.x is not None]
    drawn = numbers[-1] if numbers else None
    rest = [entry.label for entry in point if entry is not drawn]
    return Entry(
        ", ".join(entry.label for entry in point),
        merged(*(entry.settings for entry in point)),
        drawn.x if drawn else None,
        ", ".join(rest),
        next((entry.name for entry in point if entry.name), ""),
    )
