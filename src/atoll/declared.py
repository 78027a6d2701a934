"""Which components a room declares, read off its source: naming them needs no torch."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Declared:
    """A registered class: its name, its short names, the first line of its docstring."""

    name: str
    aliases: tuple[str, ...]
    summary: str


def declared_in(room: str, registry: str) -> list[Declared]:
    """What the files of a room, as ``methods``, put into a registry, in the order of names."""
    found = [
        component
        for path in sorted((Path(__file__).parent / room).rglob("*.py"))
        for component in _of_file(path, registry)
    ]
    return sorted(found, key=lambda component: component.name)


def _of_file(path: Path, registry: str) -> list[Declared]:
    source = path.read_text()
    if "register(" not in source:
        return []
    classes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef))
    return [
        Declared(names[0], tuple(sorted(names[1:])), _first_line(node))
        for node in classes
        for names in (_names(call, registry) for call in node.decorator_list)
        if names
    ]


def _names(decorator: ast.expr, registry: str) -> list[str]:
    """The names in ``@register("a", "b")`` or ``@registry.register(...)``."""
    if not isinstance(decorator, ast.Call):
        return []
    called = ast.unparse(decorator.func)
    if called not in ("register", f"{registry}.register"):
        return []
    return [str(a.value) for a in decorator.args if isinstance(a, ast.Constant)]


def _first_line(node: ast.ClassDef) -> str:
    return (ast.get_docstring(node) or "").split("\n")[0]
