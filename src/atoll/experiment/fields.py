"""Plain values as the fields of a dataclass, each checked against its type."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from atoll.data.stress import IN_DATA
from atoll.errors import AtollError, unknown
from atoll.experiment.outside import find_class
from atoll.methods.base import Method, methods

C = TypeVar("C")


def refuse_no_section(section: str, values: object) -> None:
    if not isinstance(values, Mapping):
        raise AtollError(
            f"'{section}' must be a section of settings, as in [{section}]; it can't be {values!r}."
        )


def build(
    cls: type[C], section: str, values: Mapping[str, Any], given: Mapping[str, Any] | None = None
) -> C:
    """An instance of a dataclass from plain values, each checked against its field's type."""
    given = given or {}
    refuse_no_section(section, values)
    hints = _types_of(cast(Hashable, cls))
    known = [f.name for f in fields(cls) if f.name not in given]  # type: ignore[arg-type]
    checked: dict[str, Any] = {}
    for key, value in values.items():
        if key not in known:
            near = [*known, *(IN_DATA if section == "data" else ())]
            raise unknown("config key", f"{section}.{key}", [f"{section}.{k}" for k in near])
        checked[key] = _checked(f"{section}.{key}", value, hints[key])
    return cls(**checked, **given)


@cache
def _types_of(cls: Any) -> dict[str, Any]:
    """The types of a class's fields, which are read off text: slow, and always the same."""
    return get_type_hints(cls)


def _checked(where: str, value: Any, hint: Any) -> Any:
    origin = get_origin(hint)
    if origin is Literal:
        if value not in get_args(hint):
            raise unknown(f"value of {where}:", str(value), [str(v) for v in get_args(hint)])
        return value
    if origin in (Union, UnionType):
        for option in get_args(hint):
            try:
                return _checked(where, value, option)
            except AtollError:
                continue
        raise _wrong(where, value, hint)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise _wrong(where, value, hint)
        return tuple(_checked(where, v, get_args(hint)[0]) for v in value)
    if hint is Method and isinstance(value, str | Mapping):
        return _inner_method(where, value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is Any or (isinstance(hint, type) and _exactly(value, hint)):
        return value
    if not isinstance(hint, type) and callable(value):
        return value
    raise _wrong(where, value, hint)


def _inner_method(where: str, value: str | Mapping[str, Any]) -> Method:
    """A method within a method: its name, or a table of its name and options."""
    options = {"name": value} if isinstance(value, str) else dict(value)
    if "name" not in options:
        raise AtollError(
            f"{where} does not say which method; give it a name, as in {{ name = ... }}."
        )
    cls = find_class(methods, where, options)
    kept = {k: v for k, v in options.items() if k not in ("name", "sha256")}
    inner: Method = build(cls, where, kept)
    return inner


def _exactly(value: Any, hint: type) -> bool:
    return isinstance(value, hint) and not (isinstance(value, bool) and hint is not bool)


def _wrong(where: str, value: Any, hint: Any) -> AtollError:
    wanted = hint.__name__ if isinstance(hint, type) else str(hint)
    return AtollError(f"{where} is {value!r}, a {type(value).__name__}; it must be {wanted}.")
