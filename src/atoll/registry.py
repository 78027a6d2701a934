"""Self-discovering registries: a file dropped into a room is found, nothing else is edited."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from atoll.errors import unknown

T = TypeVar("T")


class Registry(Generic[T]):
    """Named classes of one kind, found by importing every module of a package."""

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self.package = package
        self._classes: dict[str, type[T]] = {}
        self._aliases: dict[str, str] = {}
        self._discovered = False

    def register(self, name: str, *aliases: str) -> Callable[[type[T]], type[T]]:
        """Give a class a name, and further ones that stand for it; only the name is kept."""

        def add(cls: type[T]) -> type[T]:
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
        full = self.full_name(name)
        if full not in self._classes:
            raise unknown(self.kind, name, (*self._classes, *self._aliases))
        return self._classes[full]

    def full_name(self, name: str) -> str:
        """The name that a short one stands for; any other stays as it is."""
        self._discover()
        return self._aliases.get(name, name)

    def aliases(self, name: str) -> list[str]:
        """The short names of a class."""
        self._discover()
        return sorted(alias for alias, full in self._aliases.items() if full == name)

    def __iter__(self) -> Iterator[str]:
        self._discover()
        return iter(sorted(self._classes))

    def summaries(self) -> dict[str, str]:
        """The first line of each class's docstring, by name."""
        return {name: (self[name].__doc__ or "").strip().split("\n")[0] for name in self}

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
        self._discovered = True
