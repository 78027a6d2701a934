"""Self-discovering registries: a file dropped into a room is found, nothing else is edited.

Besides the room's own there are the components of installed packages, by entry points, and those of
any file, by address. Neither is imported before it is asked for.
"""

import copyreg
import importlib
import inspect
import logging
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from importlib.metadata import EntryPoint
from typing import Any, Generic, TypeVar

from atoll.errors import AtollError, unknown
from atoll.plugins import (
    absolute,
    from_plugin,
    is_address,
    load,
    load_offered,
    offered,
    origin,
    package_of,
    refuse_other,
)

log = logging.getLogger("atoll")

T = TypeVar("T")


class Registry(Generic[T]):
    """Named classes of one kind, found by importing every module of a package.

    With ``base``, the class that all derive from, there may be others from outside: those that
    installed packages offer under ``group``, and any by its address.
    """

    def __init__(
        self,
        kind: str,
        package: str,
        base: Callable[[], type[T]] | None = None,
        group: str = "",
    ) -> None:
        self.kind = kind
        self.package = package
        self.base = base
        self.group = group
        self._classes: dict[str, type[T]] = {}
        self._aliases: dict[str, str] = {}
        self._offered: dict[str, EntryPoint] = {}
        self._discovered = False

    def register(self, name: str, *aliases: str) -> Callable[[type[T]], type[T]]:
        """Give a class a name, and further ones that stand for it; only the name is kept."""

        def add(cls: type[T]) -> type[T]:
            if from_plugin(cls):  # known by its address, so its name may be anything
                cls.registered_name = name  # type: ignore[attr-defined]
                return cls
            for alias in aliases:
                if self._aliases.setdefault(alias, name) != name or alias in self._classes:
                    raise ValueError(f"two {self.kind}s are called '{alias}'")
            taken = self._classes.get(name)
            if taken is not None and taken.__qualname__ != cls.__qualname__:
                raise ValueError(f"two {self.kind}s are called '{name}': {taken} and {cls}")
            self._classes[name] = cls
            cls.registered_name = name  # type: ignore[attr-defined]
            return cls

        return add

    def __getitem__(self, name: str) -> type[T]:
        return self.find(name)

    def find(self, name: str, sha256: str = "") -> type[T]:
        """The class of a name or address; with ``sha256``, only if its file still is that one."""
        full = self.full_name(name)
        if self.base is not None and is_address(full):
            outside: type[T] = self.adopted(load(full, sha256), full)
            return outside
        if full in self._classes:
            return self._classes[full]
        if full not in self._offered:
            raise unknown(self.kind, name, (*self._classes, *self._aliases, *self._offered))
        cls: type[T] = self.adopted(load_offered(self._offered[full]), full)
        found = origin(cls)
        if sha256 and found is not None:
            refuse_other(f"{full} of {found.package}", found.sha256, sha256)
        return cls

    def offered_by(self, name: str) -> str:
        """The installed package that offers a component; empty for Atoll's own."""
        self._discover()
        entry = self._offered.get(name)
        return "" if entry is None else package_of(entry)

    def full_name(self, name: str) -> str:
        """The name that a short one stands for, or an address in full; else as it is."""
        if self.base is not None and is_address(name):
            return absolute(name)
        self._discover()
        return self._aliases.get(name, name)

    def aliases(self, name: str) -> list[str]:
        """The short names of a class."""
        self._discover()
        return sorted(alias for alias, full in self._aliases.items() if full == name)

    def __iter__(self) -> Iterator[str]:
        self._discover()
        return iter(sorted({*self._classes, *self._offered}))

    def summaries(self) -> dict[str, str]:
        """The first line of each class's docstring, by name; why not, where it can't be had."""
        return {name: self._summary(name) for name in self}

    def _summary(self, name: str) -> str:
        try:
            return (self[name].__doc__ or "").strip().split("\n")[0]
        except AtollError as problem:
            return str(problem)

    def _discover(self) -> None:
        if self._discovered:
            return
        package = importlib.import_module(self.package)
        for module in pkgutil.iter_modules(package.__path__):
            name = f"{self.package}.{module.name}"
            try:
                importlib.import_module(name)
            except Exception as problem:
                problem.add_note(f"{name} can't be imported, so no {self.kind} can be found")
                raise
        for name, entry in offered(self.group).items() if self.group else ():
            if name in self._classes or name in self._aliases:
                log.warning(
                    "the %s '%s' of %s is hidden by Atoll's own.",
                    self.kind,
                    name,
                    package_of(entry),
                )
            else:
                self._offered[name] = entry
        self._discovered = True

    def adopted(self, found: Any, name: str = "") -> Any:
        """A class that is no part of Atoll, held against what its kind must be.

        Without a decorator it is made a frozen dataclass, and named after itself.
        """
        assert self.base is not None
        base = self.base()
        name = name or getattr(found, "__qualname__", repr(found))
        if not (isinstance(found, type) and issubclass(found, base)):
            raise AtollError(
                f"'{name}' is no {self.kind}{_line_of(found)}; it must be a class derived from "
                f"{base.__module__}.{base.__qualname__}."
            )
        if inspect.isabstract(found):
            lacking = ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
            raise AtollError(
                f"'{name}' can't be used{_line_of(found)}: it does not define {lacking}."
            )
        if "__dataclass_fields__" not in vars(found):
            found = dataclass(frozen=True, kw_only=True)(found)
        if "registered_name" not in vars(found):
            words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", found.__name__)
            found.registered_name = words.lower()
        if from_plugin(found):
            copyreg.pickle(found, _parcel)
        return found


def _line_of(found: Any) -> str:
    try:
        return f" (line {inspect.getsourcelines(found)[1]})"
    except (TypeError, OSError):
        return ""


def _parcel(part: Any) -> tuple[Any, ...]:
    """For another process of the same run, which must load the same file first."""
    where = origin(type(part))
    assert where is not None
    values = {spec.name: getattr(part, spec.name) for spec in fields(part)}
    return _unpacked, (where.name, where.sha256, type(part).registered_name, values)


def _unpacked(address: str, sha256: str, name: str, values: dict[str, Any]) -> Any:
    cls = load(address, sha256)
    if "__dataclass_fields__" not in vars(cls):
        cls = dataclass(frozen=True, kw_only=True)(cls)
    cls.registered_name = name
    return cls(**values)
