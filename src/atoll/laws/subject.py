"""From a name, an address or a class to a method on trial."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from atoll.laws.laws import Subject
from atoll.methods.base import Method, methods
from atoll.plugins import load_anew, origin


def subject_of(method: str | type[Method] | Method) -> Subject:
    """A method with a small model, so that its laws take seconds."""
    if isinstance(method, str):
        method = methods[method]
    made = methods.adopted(method)() if isinstance(method, type) else method
    small = {"hidden": 8} if any(f.name == "hidden" for f in fields(made.model)) else {}
    made = replace(made, model=replace(made.model, **small))
    return Subject(made, lambda: _anew(made))


def _anew(method: Method) -> Method:
    """The same method as another process would have it: its file read again, nothing remembered."""
    where = origin(type(method))
    cls: Any = type(method)
    if where is not None and not where.package:
        cls = methods.adopted(load_anew(where.name))
    values = {spec.name: getattr(method, spec.name) for spec in fields(method)}
    made: Method = cls(**values)
    return made
