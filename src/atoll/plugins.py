"""Code of the user's own, by its address: ``./mine.py:FedAvgM`` or ``package.module:FedAvgM``.

The only place where Atoll imports what somebody names. A file is read once: the bytes whose SHA-256
is kept are the bytes that are run. Within :func:`admitting`, which a deployed site never leaves,
nothing is imported but what is named there.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from atoll.errors import AtollError
from atoll.one_file import PREFIX, OneFile, executed

_admitted: ContextVar[frozenset[str] | None] = ContextVar("admitted", default=None)


class PluginNotAdmitted(AtollError):
    """A site was asked to run code that nobody there has admitted."""


@dataclass(frozen=True)
class Origin:
    """Where code outside Atoll comes from: its name in a config, and its file's SHA-256."""

    name: str
    sha256: str
    # The installed package that offers it by name, with its version.
    package: str = ""


_modules: dict[tuple[str, str], ModuleType] = {}
_origins: dict[Any, Origin] = {}


def is_address(name: object) -> bool:
    return isinstance(name, str) and ":" in name


def is_file(address: str) -> bool:
    return address.rpartition(":")[0].endswith(".py")


def absolute(address: str, folder: Path | None = None) -> str:
    """An address that means the same everywhere on this machine; relative to ``folder`` or here."""
    if not is_file(address):
        return address
    path, _, name = address.rpartition(":")
    try:
        return f"{(folder or Path.cwd()).joinpath(Path(path).expanduser()).resolve()}:{name}"
    except (OSError, ValueError, RuntimeError) as problem:  # a zero byte, a home of nobody's
        raise AtollError(
            f"'{address}' names no file ({problem}); write it as path/to/file.py:Name."
        ) from problem


def from_plugin(cls: type) -> bool:
    """Whether a class was defined in a file that was loaded here."""
    return cls.__module__.startswith(PREFIX)


@contextmanager
def admitting(addresses: Collection[str]) -> Iterator[None]:
    """Within it these addresses and names may be loaded, and no others."""
    token = _admitted.set(frozenset(addresses))
    try:
        yield
    finally:
        _admitted.reset(token)


def refuse_unless_admitted(name: str) -> None:
    """Nothing has been read or imported before this."""
    admitted = _admitted.get()
    if admitted is not None and name not in admitted:
        raise not_admitted(name)


def not_admitted(name: str) -> PluginNotAdmitted:
    return PluginNotAdmitted(
        f"this site does not admit the plug-in '{name}'; if it is to take part, read that code and "
        f"start the site with: --admit {name}"
    )


def load(address: str, sha256: str = "") -> Any:
    """What an address stands for. With ``sha256``, only if its file still is that one."""
    refuse_unless_admitted(address)
    where, _, name = address.rpartition(":")
    if not (where and name.isidentifier()):
        raise AtollError(
            f"'{address}' is no address; write it as path/to/file.py:Name or package.module:Name."
        )
    known = _known(address, sha256)
    if known is not None:
        return known
    if is_file(address):
        address = absolute(address)
        module, digest = _from_file(Path(address.rpartition(":")[0]), sha256)
    else:
        if sha256:
            refuse_other(address, digest_of(address), sha256)
        module, digest = _installed(where, address), digest_of(address)
    try:
        found = getattr(module, name)
    except AttributeError:
        known_names = [n for n, v in vars(module).items() if callable(v) and n[0] != "_"]
        near = get_close_matches(name, known_names, n=1)
        hint = f"did you mean '{near[0]}'?" if near else "check the name."
        raise AtollError(f"'{where}' has no '{name}': {hint}") from None
    _remember(found, Origin(address, digest))
    return found


def load_anew(address: str) -> Any:
    """What an address stands for, run again as another process would: nothing of it remembered."""
    if not is_file(address):
        return load(address)
    refuse_unless_admitted(address)
    path, _, name = absolute(address).rpartition(":")
    source = source_of(absolute(address))
    module = executed(Path(path), source, hashlib.sha256(source).hexdigest())
    return getattr(module, name)


def _known(address: str, sha256: str) -> Any:
    """A class or function that this process has under an address already, if it is that version."""
    full = absolute(address)
    for thing, origin in _origins.items():
        if origin.name == full and sha256 and origin.sha256 == sha256:
            return thing
    return None


def _remember(thing: Any, origin: Origin) -> None:
    try:
        _origins.setdefault(thing, origin)
    except TypeError:  # not hashable, so it is no class and no function
        return


def _from_file(path: Path, sha256: str) -> tuple[ModuleType, str]:
    try:
        source = path.read_bytes()
    except FileNotFoundError:
        raise AtollError(f"there is no file '{path}'; check the path.") from None
    except OSError as problem:
        raise AtollError(f"'{path}' can't be read ({problem.strerror}).") from problem
    digest = hashlib.sha256(source).hexdigest()
    if sha256:
        refuse_other(str(path), digest, sha256)
    key = (str(path), digest)
    if key not in _modules:
        _modules[key] = executed(path, source, digest)
    return _modules[key], digest


def refuse_other(where: str, found: str, kept: str) -> None:
    """Code that has changed would not give the result that it is to continue or to use."""
    if found != kept:
        raise AtollError(
            f"'{where}' has changed: its SHA-256 is {found[:12] or 'not known'}, not {kept[:12]} "
            f"as it was; put the old one back (a run keeps a copy in its folder 'plug-ins'), or "
            f"begin anew without sha256."
        )


def _installed(where: str, address: str) -> ModuleType:
    """An importable module; beside the user, too, unless this is a site."""
    beside = "" not in sys.path and _admitted.get() is None
    if beside:
        sys.path.append("")
    try:
        return importlib.import_module(where)
    except (ImportError, ValueError) as problem:
        raise AtollError(
            f"'{address}' can't be imported ({problem}); give it as package.module:Name or "
            f"path/to/file.py:Name."
        ) from problem
    finally:
        if beside:
            sys.path.remove("")


def digest_of(address: str) -> str:
    """The SHA-256 of an address's file as it is now; empty where there is none. Runs nothing."""
    where = address.rpartition(":")[0]
    path: Path | None = Path(where)
    if not is_file(address):
        loaded = sys.modules.get(where)
        try:
            spec = find_spec(where) if loaded is None else loaded.__spec__
            origin = spec.origin if spec is not None else getattr(loaded, "__file__", None)
        except (ImportError, ValueError):
            origin = None
        path = Path(origin) if origin else None
    return _digest(path)


def _digest(path: Path | None) -> str:
    try:
        return "" if path is None else hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def origin(thing: Any) -> Origin | None:
    """Where a class or function comes from; None for Atoll's own, and where no file has it."""
    if thing in _origins:
        return _origins[thing]
    module, name = thing.__module__, thing.__qualname__
    if module.split(".")[0] == "atoll" or "<" in name:
        return None
    try:
        file = inspect.getsourcefile(thing)
    except (TypeError, OSError):
        file = None
    path = Path(file) if file else None
    if path is None or path.suffix != ".py" or not path.is_file() or "." in name:
        return None
    found = Origin(f"{path.resolve()}:{name}", _digest(path))
    _remember(thing, found)
    return found


def offered(group: str) -> dict[str, EntryPoint]:
    """What installed packages offer under a group of entry points, by name. Imports nothing."""
    return {entry.name: entry for entry in entry_points(group=group)}


def load_offered(entry: EntryPoint) -> Any:
    """A component of an installed package."""
    refuse_unless_admitted(entry.name)
    try:
        found = entry.load()
    except Exception as problem:
        raise AtollError(
            f"'{entry.name}' of the package '{package_of(entry)}' can't be imported ({problem}); "
            f"mend or uninstall the package."
        ) from problem
    _origins[found] = Origin(entry.name, digest_of(f"{entry.module}:x"), package_of(entry))
    return found


def package_of(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.module


def addresses_named(table: Mapping[str, Any]) -> list[str]:
    """Every address in a config's sections, at any depth. Loads nothing."""
    found: list[str] = []
    for key, value in table.items():
        if isinstance(value, Mapping):
            found += addresses_named(value)
        elif key in ("name", "factory") and is_address(value):
            found.append(value)
    return found


def source_of(address: str) -> bytes:
    """What a file held when it was loaded, or holds now if it was not."""
    path = address.rpartition(":")[0]
    for (where, _), module in reversed(_modules.items()):
        loader = module.__spec__.loader if module.__spec__ else None
        if where == path and isinstance(loader, OneFile):
            return loader.source
    return Path(path).read_bytes()
