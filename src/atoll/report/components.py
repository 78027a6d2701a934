"""What there is to choose from: one line per name, and the options of one component."""

from __future__ import annotations

import inspect
from typing import Any

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from atoll.options import options_of
from atoll.registry import Registry

# Fields of a method that are components themselves, with a section of their own.
_PARTS = ("task", "model", "optimizer")


def names_table(registry: Registry[Any]) -> Table:
    """One line per component: its name and what it is."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, summary in registry.summaries().items():
        table.add_row(Text(name, style="bold"), Text(summary))
    return table


def component(cls: type[Any], section: str) -> Group:
    """What a component is, and its options: allowed values and defaults.

    ``section`` is the config's, in which the options are set.
    """
    summary = (inspect.getdoc(cls) or "").split("\n\n")[0]
    options = list(options_of(cls))
    parts = [f"{o.name} {o.default}" for o in options if o.name in _PARTS]
    own = [o for o in options if o.name not in _PARTS]
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("option", "values", "default"):
        table.add_column(heading, overflow="fold")
    for option in own:
        table.add_row(option.name, escape(option.values), _as_set(option.default))
    shown: list[Any] = [Text(cls.registered_name, style="bold"), Text(summary)]
    if parts:
        shown.append(Text(f"Unless others are chosen: {', '.join(parts)}."))
    if own:
        shown += [Text(), table, Text(), Text(f"Set with: --set {section}.OPTION=VALUE")]
    return Group(*shown)


def _as_set(default: str) -> str:
    """A default as ``--set`` would read it."""
    return {"True": "true", "False": "false", "": '""'}.get(default, escape(default))
