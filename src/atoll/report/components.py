"""What there is to choose from: one line per name, and the options of one component."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from atoll.declared import declared_in
from atoll.options import options_of
from atoll.registry import Registry

# Fields of a method that are components themselves, with a section of their own.
_PARTS = ("task", "model", "optimizer")


def names_facts(registry: Registry[Any]) -> list[dict[str, Any]]:
    """Every component, ready for JSON: its name, its short names and what it is."""
    return [
        {
            "name": name,
            "aliases": registry.aliases(name),
            "summary": summary,
            "package": registry.offered_by(name),
        }
        for name, summary in registry.summaries().items()
    ]


def declared_facts(room: str, registry: str) -> list[dict[str, Any]]:
    """The same of Atoll's own components, without loading them."""
    return [
        {"name": c.name, "aliases": list(c.aliases), "summary": c.summary, "package": ""}
        for c in declared_in(room, registry)
    ]


def component_facts(registry: Registry[Any], name: str, section: str) -> dict[str, Any]:
    """One component, ready for JSON: what it is, its parts unless others are chosen, its options.

    ``section`` is the config's, in which the options are set.
    """
    cls = registry[name]
    full: str = cls.registered_name
    options = list(options_of(cls))
    return {
        "name": full,
        "aliases": registry.aliases(full),
        "summary": (inspect.getdoc(cls) or "").split("\n\n")[0],
        "section": section,
        "parts": {o.name: o.default for o in options if o.name in _PARTS},
        "options": [asdict(o) for o in options if o.name not in _PARTS],
    }


def names_table(facts: Iterable[Mapping[str, Any]]) -> Table:
    """One line per component: its name, what it is, and its short name if it has one."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for fact in facts:
        also = f" Short: {', '.join(fact['aliases'])}." if fact["aliases"] else ""
        also += f" (from {fact['package']})" if fact["package"] else ""
        table.add_row(Text(fact["name"], style="bold"), Text(fact["summary"] + also))
    return table


def component(registry: Registry[Any], name: str, section: str) -> Group:
    """What a component is, and its options: allowed values and defaults."""
    facts = component_facts(registry, name, section)
    parts = [f"{part} {default}" for part, default in facts["parts"].items()]
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("option", "values", "default"):
        table.add_column(heading, overflow="fold")
    for option in facts["options"]:
        table.add_row(option["name"], escape(option["values"]), _as_set(option["default"]))
    shown: list[Any] = [Text(facts["name"], style="bold"), Text(facts["summary"])]
    if facts["aliases"]:
        shown.append(Text(f"Also called: {', '.join(facts['aliases'])}."))
    if parts:
        shown.append(Text(f"Unless others are chosen: {', '.join(parts)}."))
    if facts["options"]:
        shown += [Text(), table, Text(), Text(f"Set with: --set {section}.OPTION=VALUE")]
    return Group(*shown)


def _as_set(default: str) -> str:
    """A default as ``--set`` would read it."""
    return {"True": "true", "False": "false", "": '""'}.get(default, escape(default))
