"""Recipes: a table of a paper as settings, seeds, the paper's numbers and a tolerance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from atoll.errors import AtollError, unknown
from atoll.experiment.config import Experiment, build, merged, read_table, resolve


@dataclass(frozen=True, kw_only=True)
class Header:
    """What holds for the whole table. ``above`` says whether beating the paper is a deviation."""

    title: str
    source: str
    notes: str = ""
    seeds: int = 3
    tolerance: float = 1.0
    above: Literal["fine", "outside"] = "outside"


@dataclass(frozen=True)
class Target:
    """One cell of the paper: a row, a method, and what was published, in percent."""

    row: str
    method: str
    mean: float
    std: float
    tolerance: float
    settings: Mapping[str, Mapping[str, Any]]

    def experiment(self, seed: int) -> Experiment:
        return resolve(merged(self.settings, {"run": {"seed": seed}}))


@dataclass(frozen=True)
class Recipe:
    name: str
    header: Header
    targets: tuple[Target, ...]

    def chosen(self, rows: list[str]) -> list[Target]:
        known = {target.row for target in self.targets}
        for row in rows:
            if row not in known:
                raise unknown(f"row of {self.name}", row, known)
        return [target for target in self.targets if not rows or target.row in rows]


def recipe_folder() -> Path:
    """The recipes of a source tree, or the ones packed into the installed package."""
    package = Path(__file__).resolve().parents[1]
    in_tree = package.parents[1] / "recipes"
    return in_tree if in_tree.is_dir() else package / "recipes"


def load_recipe(name: str) -> Recipe:
    """``PAPER/TABLE`` from the recipes folder."""
    folder = recipe_folder()
    path = folder / f"{name}.toml"
    if not path.is_file():
        known = [str(p.relative_to(folder).with_suffix("")) for p in folder.glob("*/*.toml")]
        raise unknown("recipe", name, known)
    table = read_table(path)
    try:
        settings, methods, rows = (table.pop(key) for key in ("settings", "methods", "rows"))
    except KeyError as missing:
        raise AtollError(f"'{path}' has no section {missing}; a recipe needs one.") from None
    header = build(Header, name, table)
    targets = [
        _target(f"{name} {row}", row, method, entry, header, settings, methods)
        for row, entry in rows.items()
        for method in entry["paper"]
    ]
    return Recipe(name, header, tuple(targets))


def _target(
    where: str,
    row: str,
    method: str,
    entry: Mapping[str, Any],
    header: Header,
    settings: Mapping[str, Mapping[str, Any]],
    methods: Mapping[str, Mapping[str, Mapping[str, Any]]],
) -> Target:
    if method not in methods:
        raise unknown(f"method in {where}:", method, methods)
    mean, std = entry["paper"][method]
    tolerance = entry.get("tolerance", {}).get(method, header.tolerance)
    named = {"method": {"name": method}}
    own = merged(settings, entry.get("settings", {}), named, methods[method])
    return Target(row, method, float(mean), float(std), float(tolerance), own)
