"""Options of a component: the fields of its dataclass, with the bounds declared beside them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import lru_cache
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from atoll.errors import AtollError, unknown

Number = int | float
_TESTS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "at_least": (operator.ge, "at least"),
    "above": (operator.gt, "above"),
    "at_most": (operator.le, "at most"),
    "below": (operator.lt, "below"),
}


def option(
    default: Any,
    *,
    at_least: Number | None = None,
    above: Number | None = None,
    at_most: Number | None = None,
    below: Number | None = None,
    why: str = "",
) -> Any:
    """A field with bounds: ``mu: float = option(1.0, at_least=0)``.

    :func:`check_options` holds values against them and ``atoll list methods NAME`` shows them.
    ``why`` is added to the message where the bounds alone would not explain themselves.
    """
    given = {"at_least": at_least, "above": above, "at_most": at_most, "below": below}
    bounds = {name: bound for name, bound in given.items() if bound is not None}
    return field(default=default, metadata={"bounds": bounds, "why": why})


def check_options(section: str, component: Any) -> None:
    """Refuse values out of bounds, or none of the choices, with one sentence.

    ``section`` is the config's, as in TOML.
    """
    choices = _choices(cast(Hashable, type(component)))
    for spec in fields(component):
        declared = declared_bounds(type(component), spec.name)
        value = getattr(component, spec.name)
        if spec.name in choices and value not in choices[spec.name]:
            raise not_a_choice(f"{section}.{spec.name}", value, choices[spec.name])
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, int | float) and not _within(one, declared):
                why = f" ({declared['why']})" if declared["why"] else ""
                raise AtollError(
                    f"{section}.{spec.name} is {one}; it must be {bounds_text(declared)}{why}."
                )


@lru_cache(maxsize=1024)
def _choices(cls: Any) -> dict[str, tuple[Any, ...]]:
    """The options that take one of a few values, and these."""
    hints = get_type_hints(cls)
    literal = (spec.name for spec in fields(cls) if get_origin(hints[spec.name]) is Literal)
    return {name: get_args(hints[name]) for name in literal}


def not_a_choice(where: str, value: Any, choices: tuple[Any, ...]) -> AtollError:
    """An error for a value that is none of those an option takes."""
    return unknown(f"value of {where}:", str(value), [str(choice) for choice in choices])


def declared_bounds(cls: type[Any], name: str) -> Mapping[str, Any]:
    """The bounds of a field: those of the nearest class that gives any.

    A class that changes a default keeps the bounds.
    """
    for base in cls.__mro__:
        spec = base.__dict__.get("__dataclass_fields__", {}).get(name)
        if spec is not None and "bounds" in spec.metadata:
            return spec.metadata  # type: ignore[no-any-return]
    return {}


def _within(value: Number, declared: Mapping[str, Any]) -> bool:
    bounds = declared.get("bounds", {})
    if bounds and not math.isfinite(value):
        return False
    return all(_TESTS[name][0](value, bound) for name, bound in bounds.items())


def bounds_text(declared: Mapping[str, Any]) -> str:
    """``at least 0 and below 1``; empty without bounds."""
    bounds = declared.get("bounds", {})
    return " and ".join(f"{_TESTS[name][1]} {bound}" for name, bound in bounds.items())


@dataclass(frozen=True)
class Option:
    """One option as people see it."""

    name: str
    values: str
    default: str


def options_of(cls: type[Any]) -> Iterator[Option]:
    """The options of a component class, in the order of its fields."""
    hints = get_type_hints(cls)
    for spec in fields(cls):
        default = spec.default
        if default is MISSING and spec.default_factory is not MISSING:
            default = spec.default_factory()
        declared = declared_bounds(cls, spec.name)
        yield Option(spec.name, _values(hints[spec.name], declared), _plain(default))


def _values(hint: Any, declared: Mapping[str, Any]) -> str:
    if get_origin(hint) is Literal:
        return " | ".join(map(str, get_args(hint)))
    kind = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
    bounds = bounds_text(declared)
    return f"{kind}, {bounds}" if bounds else kind


def _plain(default: Any) -> str:
    if default is MISSING:
        return "(must be given)"
    name = getattr(type(default), "registered_name", None)
    return str(default if name is None else name)
