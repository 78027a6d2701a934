"""Components that are no part of Atoll, as a config has them: an address, and a SHA-256 beside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from atoll.errors import AtollError
from atoll.models.base import Model
from atoll.plugins import Origin, absolute, digest_of, is_address, load, origin
from atoll.registry import Registry


def find_class(registry: Registry[Any], where: str, values: Mapping[str, Any]) -> Any:
    """The class that a section names; if it says which version, that one."""
    name, sha256 = values["name"], values.get("sha256", "")
    if not isinstance(name, str):
        raise AtollError(f"{where}.name is {name!r}, a {type(name).__name__}; it must be str.")
    return registry.find(name, sha256 if isinstance(sha256, str) else "")


def with_factory(table: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
    """A model's address may be that of a torch module, or of a function that makes one."""
    values = table.get("model", {})
    name = values.get("name")
    if not is_address(name):
        return table
    found = load(absolute(str(name)), values.get("sha256", ""))
    if not callable(found) or (isinstance(found, type) and issubclass(found, Model)):
        return table
    return {**table, "model": {**values, "name": "module", "factory": absolute(str(name))}}


def with_code(values: Mapping[str, Any]) -> dict[str, Any]:
    """A model's settings with its factory loaded: the bytes that were compared with the SHA-256 are
    those that run, in every round, whatever becomes of the file."""
    factory, sha256 = values.get("factory"), values.get("sha256")
    rest = {key: value for key, value in values.items() if key != "sha256"}
    if not (isinstance(factory, str) and factory):
        return rest
    found = load(absolute(factory), sha256 if isinstance(sha256, str) else "")
    return rest | ({"factory": found} if isinstance(found, type | FunctionType) else {})


def outside(part: Any) -> Origin | None:
    """Where the code of a component comes from that is no part of Atoll."""
    factory = getattr(part, "factory", "")
    if callable(factory):
        return origin(factory)
    if factory:
        return Origin(absolute(factory), digest_of(absolute(factory)))
    return origin(type(part))


def address(function: Callable[..., Any]) -> str:
    """Where a function can be loaded from; functions without a name of their own say so."""
    known = origin(function)
    return known.name if known else f"{function.__module__}:{function.__qualname__}"
