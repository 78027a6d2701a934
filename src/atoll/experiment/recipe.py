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
    """What holds for the whole table.

    ``measure`` is what its cells hold: the test accuracy of methods, in percent, or statistics of
    a partition (those of ``atoll.report.description``), where a tolerance is a share of the
    paper's number. A cell may also be off by ``spreads`` times the paper's own standard deviation,
    where that is more. ``above`` says whether beating the paper is a deviation.
    """

    title: str
    source: str
    notes: str = ""
    seeds: int = 3
    tolerance: float = 1.0
    spreads: float = 0.0
    above: Literal["fine", "outside"] = "outside"
    measure: Literal["accuracy", "statistics"] = "accuracy"


@dataclass(frozen=True)
class Target:
    """One cell of the paper: a row, a method or statistic, and what was published."""

    row: str
    column: str
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

    def chosen(self, rows: list[str], columns: list[str]) -> list[Target]:
        """The cells in some rows and columns; none named means all."""
        for part, names in (("row", rows), ("column", columns)):
            known = {getattr(target, part) for target in self.targets}
            for name in names:
                if name not in known:
                    raise unknown(f"{part} of {self.name}", name, known)
        return [
            target
            for target in self.targets
            if (not rows or target.row in rows) and (not columns or target.column in columns)
        ]


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
        settings, rows = (table.pop(key) for key in ("settings", "rows"))
    except KeyError as missing:
        raise AtollError(f"'{path}' has no section {missing}; a recipe needs one.") from None
    methods = table.pop("methods", {})
    header = build(Header, name, table)
    targets = [
        _target(f"{name} {row}", row, column, entry, header, settings, methods)
        for row, entry in rows.items()
        for column in entry["paper"]
    ]
    return Recipe(name, header, tuple(targets))


def _target(
    where: str,
    row: str,
    column: str,
    entry: Mapping[str, Any],
    header: Header,
    settings: Mapping[str, Mapping[str, Any]],
    methods: Mapping[str, Mapping[str, Mapping[str, Any]]],
) -> Target:
    own = merged(settings, entry.get("settings", {}))
    if header.measure == "accuracy":
        if column not in methods:
            raise unknown(f"method in {where}:", column, methods)
        own = merged(own, {"method": {"name": column}}, methods[column])
    published = entry["paper"][column]
    mean, std = published if isinstance(published, list) else (published, 0.0)
    tolerance = entry.get("tolerance", {}).get(column, header.tolerance)
    if header.measure == "statistics":
        tolerance = tolerance * abs(mean)
    allowed = max(float(tolerance), header.spreads * std)
    return Target(row, column, float(mean), float(std), allowed, own)
