"""Which code besides Atoll's own a site runs: what its own people have named, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from atoll.errors import AtollError
from atoll.experiment.config import REGISTRIES
from atoll.files import refuse_written_by_all
from atoll.plugins import (
    PluginNotAdmitted,
    absolute,
    addresses_named,
    digest_of,
    is_address,
    is_file,
    not_admitted,
)

_NAMES = ("name", "factory")


def on_the_wire(table: Mapping[str, Any]) -> dict[str, Any]:
    """A config as sites get it: a file's own name, not where it lies at the coordinator."""
    return {
        key: on_the_wire(value)
        if isinstance(value, Mapping)
        else _short(value)
        if key in _NAMES
        else value
        for key, value in table.items()
    }


def _short(name: Any) -> Any:
    if not (is_address(name) and is_file(name)):
        return name
    path, _, what = name.rpartition(":")
    return f"{Path(path).name}:{what}"


class Admission:
    """The plug-ins that a site admits, by address or by the name of an installed one."""

    def __init__(self, plugins: Sequence[str] = ()) -> None:
        self.addresses = tuple(absolute(name) for name in plugins)
        self._by_name = {_short(name): name for name in self.addresses}

    def check(self) -> dict[str, str]:
        """The SHA-256 of each, for its people to compare; one that is not there is an error."""
        found = {}
        for name in self.addresses:
            installed = not is_address(name) and any(
                registry.offered_by(name) for registry, _ in REGISTRIES.values()
            )
            digest = digest_of(name) if is_address(name) else ""
            if digest and is_file(name):
                refuse_written_by_all(Path(name.rpartition(":")[0]))
            if not (digest or installed):
                raise AtollError(f"--admit {name}: there is no such file or plug-in; check it.")
            found[name] = digest
        return found

    def localized(self, table: Mapping[str, Any]) -> dict[str, Any]:
        """A config that came over the wire, with this site's own files in the places of those it
        names. Nothing is loaded; what is not admitted, or differs, is refused."""
        own: dict[str, Any] = {}
        for key, value in table.items():
            if isinstance(value, Mapping):
                own[key] = self.localized(value)
            elif key in _NAMES and self._is_outside(value):
                own[key] = self._own(str(value), table.get("sha256"))
            else:
                own[key] = value
        return own

    def _is_outside(self, name: Any) -> bool:
        return is_address(name) or any(
            registry.offered_by(str(name)) for registry, _ in REGISTRIES.values()
        )

    def _own(self, name: str, sha256: Any) -> str:
        if name not in self._by_name:
            raise not_admitted(name)
        own = self._by_name[name]
        found = digest_of(own) if is_address(own) else sha256
        if not sha256 or found != sha256:
            raise PluginNotAdmitted(
                f"this site's '{own}' is not the coordinator's '{name}': its SHA-256 is "
                f"{str(found or 'not known')[:12]}, not {str(sha256)[:12]}; agree on one file."
            )
        return own


def plugins_of(table: Mapping[str, Any]) -> tuple[str, ...]:
    """The plug-ins that a config names, as ``--admit`` takes them."""
    offered = (
        str(values["name"])
        for section, values in table.items()
        if section in REGISTRIES and REGISTRIES[section][0].offered_by(str(values.get("name")))
    )
    return (*addresses_named(table), *offered)
