"""Recipes: a table or figure of a paper as settings, seeds, published numbers and a tolerance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from atoll.errors import AtollError, unknown
from atoll.experiment.config import Experiment, merged, read_table, resolve, section_and_key
from atoll.experiment.fields import build
from atoll.options import check_options, option
from atoll.reproduction.readings import Number, Readings, Remark, readings_of, remarks_of
from atoll.reproduction.studies.base import Study, studies

Above = Literal["fine", "outside"]


@dataclass(frozen=True, kw_only=True)
class Header:
    """What holds for the whole table.

    ``measure`` is the study that makes its cells: ``run`` trains and reads a figure of the
    result (a column's ``figure``; the test score by default), ``statistics`` describes a
    partition. ``tolerance`` is in the cell's own unit, or a share of the paper's number if
    ``relative``. A cell may also be off by ``paper_stds`` times the paper's own standard deviation,
    where that is more. ``above`` says whether a number above the paper's is a deviation, and a
    column may say otherwise (more accuracy is fine, a larger model is not); ``two_sided`` names the
    columns that deviate either way where columns are figures, such as gains. ``columns`` are run in
    every row, published or not. ``interval`` adds 95 % intervals of our means to the table.
    ``compare`` names pairs of columns, as ``"A > B"``, whose difference is tested in every row that
    has both. ``favourite`` is the column of the paper's own method, whose standing is shown.
    ``references`` are columns that stand beside the others and are not ranked with them.
    """

    title: str
    source: str
    notes: str = ""
    seeds: int = option(3, at_least=1)
    tolerance: float = option(1.0, at_least=0)
    relative: bool = False
    paper_stds: float = option(0.0, at_least=0)
    above: Above = "outside"
    two_sided: tuple[str, ...] = ()
    measure: str = "run"
    columns: tuple[str, ...] = ()
    interval: bool = False
    compare: tuple[str, ...] = ()
    favourite: str = ""
    references: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_options("recipe", self)


@dataclass(frozen=True, kw_only=True)
class Plot:
    """How the cells are drawn.

    ``lines``: one line per column, one place on the x axis per row (its ``x``). ``bars``: one
    group of bars per row. ``boxes``: one box per cell, over seeds. ``curves``: one panel per row,
    one line over rounds per column. ``heatmaps``: one panel per cell. Rows with the same ``panel``
    share axes. ``every_seed`` adds each seed's value to lines, as a dot.
    """

    kind: Literal["lines", "bars", "boxes", "curves", "heatmaps"]
    x: str = ""
    y: str = ""
    every_seed: bool = False

    def __post_init__(self) -> None:
        if self.every_seed and self.kind != "lines":
            raise AtollError(f"plot.every_seed is for lines; kind is {self.kind}.")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How a cell's settings are chosen before its seeds are run: the same effort for every cell.

    ``trials`` settings are tried, the cell's own first, if they lie in the ranges, then points
    drawn from ``over``, ranges and lists by path as ``atoll tune`` takes them. The best by its
    validation score is run. ``seed`` is that of all trials, and of no run that is reported.
    """

    trials: int = option(5, at_least=1)
    seed: int = option(1000, at_least=1)
    over: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_options("tuning", self)

    def plain(self) -> dict[str, Any]:
        return {"trials": self.trials, "seed": self.seed, "over": dict(self.over)}


@dataclass(frozen=True)
class Target:
    """One cell: a row, a column, what was published, if anything, and how to run it."""

    row: str
    column: str
    paper: float | None
    std: float
    tolerance: float
    above: Above
    figure: str
    panel: str
    x: float | None
    settings: Mapping[str, Mapping[str, Any]]
    budget: Budget | None = None

    def experiment(self, seed: int, chosen: Mapping[str, Any] | None = None) -> Experiment:
        """Its experiment with a seed; ``chosen`` are settings by path, laid over its own."""
        over = ((*section_and_key(path), value) for path, value in (chosen or {}).items())
        tables = [{section: {key: value}} for section, key, value in over]
        return resolve(merged(self.settings, *tables, {"run": {"seed": seed}}))


@dataclass(frozen=True, eq=False)
class Recipe:
    name: str
    header: Header
    targets: tuple[Target, ...]
    plot: Plot | None = None
    budget: Budget | None = None
    # Why a column is not run in a row, by row and column.
    absent: Mapping[tuple[str, str], str] = field(default_factory=dict)
    readings: Readings = field(default_factory=Readings)
    # What is known of cells that are outside; the first that concerns a cell counts.
    remarks: tuple[Remark, ...] = ()

    def number(self, target: Target) -> Number:
        """Which published number a cell is compared with; several cells may have the same."""
        return self.readings.number(self.name, target.row, target.column)

    def remark(self, target: Target) -> Remark | None:
        fitting = (one for one in self.remarks if one.concerns(target.row, target.column))
        return next(fitting, None)

    @property
    def rows(self) -> list[str]:
        return list(dict.fromkeys(target.row for target in self.targets))

    @property
    def study(self) -> Study:
        return studies[self.header.measure]()

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


def recipe_names() -> list[str]:
    """Every ``PAPER/TABLE`` there is."""
    folder = recipe_folder()
    return sorted(str(p.relative_to(folder).with_suffix("")) for p in folder.glob("*/*.toml"))


def load_recipe(name: str) -> Recipe:
    """``PAPER/TABLE`` from the recipes folder."""
    folder = recipe_folder()
    path = folder / f"{name}.toml"
    if not path.is_file():
        raise unknown("recipe", name, recipe_names())
    table = read_table(path)
    try:
        settings, rows = (table.pop(key) for key in ("settings", "rows"))
    except KeyError as missing:
        raise AtollError(f"'{path}' has no section {missing}; a recipe needs one.") from None
    methods, plot = table.pop("methods", {}), table.pop("plot", None)
    tuning, left_out = table.pop("tuning", None), table.pop("absent", {})
    same: dict[str, Any] = table.pop("readings", {})
    remarks: Any = table.pop("outside", [])
    header = build(Header, name, table)
    budget = None if tuning is None else _budget(name, tuning)
    absent = _absent(name, left_out, rows, methods)
    targets = [
        _target(f"{name} {row}", row, column, entry, header, settings, methods, budget)
        for row, entry in rows.items()
        for column in _columns(entry, header)
        if (row, column) not in absent
    ]
    known = {target.column for target in targets}
    for part, names in (("favourite", [header.favourite]), ("two_sided", header.two_sided)):
        for column in filter(None, names):
            if column not in known:
                raise unknown(f"{part} of {name}:", column, known)
    drawn = None if plot is None else build(Plot, f"{name} plot", plot)
    places = [(target.row, target.column) for target in targets]
    return Recipe(
        name,
        header,
        tuple(targets),
        drawn,
        budget,
        absent,
        readings_of(name, same, places),
        remarks_of(name, remarks, places),
    )


def _budget(name: str, given: Mapping[str, Any]) -> Budget:
    over = given.get("over", {})
    if not isinstance(over, Mapping):
        raise AtollError(f"{name} tuning.over is {over!r}; write ranges by path, as in a section.")
    rest = {key: value for key, value in given.items() if key != "over"}
    return build(Budget, f"{name} tuning", rest, {"over": dict(over)})


def _absent(
    name: str, given: Any, rows: Mapping[str, Any], methods: Mapping[str, Any]
) -> dict[tuple[str, str], str]:
    """Cells that are left out, each with the reason: ``[[absent]]`` with columns, rows, reason."""
    found: dict[tuple[str, str], str] = {}
    for entry in given:
        part = build(_LeftOut, f"{name} absent", entry)
        for names, known, what in ((part.rows, rows, "row"), (part.columns, methods, "column")):
            for one in names:
                if one not in known:
                    raise unknown(f"{what} in absent of {name}:", one, known)
        for row in part.rows or rows:
            found |= {(row, column): part.reason for column in part.columns}
    return found


@dataclass(frozen=True, kw_only=True)
class _LeftOut:
    columns: tuple[str, ...]
    reason: str
    rows: tuple[str, ...] = ()  # none named: all


def _columns(entry: Mapping[str, Any], header: Header) -> list[str]:
    """The columns of a row: those for all rows, its published ones, and further ones of its own."""
    named = (*header.columns, *entry.get("paper", {}), *entry.get("columns", ()))
    return list(dict.fromkeys(named))


def _target(
    where: str,
    row: str,
    column: str,
    entry: Mapping[str, Any],
    header: Header,
    settings: Mapping[str, Mapping[str, Any]],
    methods: Mapping[str, Mapping[str, Any]],
    budget: Budget | None,
) -> Target:
    own = merged(settings, entry.get("settings", {}))
    figure, above = column, header.above
    if studies[header.measure].trains:
        if column not in methods:
            raise unknown(f"column in {where}:", column, methods)
        of_column = dict(methods[column])
        figure, above = of_column.pop("figure", ""), of_column.pop("above", above)
        if above not in get_args(Above):
            raise unknown(f"'above' of column {column} in {where}:", str(above), get_args(Above))
        over = of_column.pop("over", {})
        if budget is not None:
            ranges = {**budget.over, **over}.items()
            # A column says false where it has no use for a range of all.
            budget = replace(budget, over={path: r for path, r in ranges if r is not False})
        elif over:
            raise AtollError(f"{where} {column} has ranges, but there is no section [tuning].")
        of_row = entry.get("methods", {})
        for name in of_row:
            if name not in methods:
                raise unknown(f"column among the methods of {where}:", name, methods)
        # A column is called after its method, unless it or its row names another.
        named = "name" in of_column.get("method", {}) or "name" in own.get("method", {})
        own = merged(
            own, {} if named else {"method": {"name": column}}, of_column, of_row.get(column, {})
        )
    if column in header.two_sided:
        above = "outside"
    published = entry.get("paper", {}).get(column)
    paper, std = published if isinstance(published, list) else (published, 0.0)
    tolerance = entry.get("tolerance", {}).get(column, header.tolerance)
    if header.relative:
        tolerance = tolerance * abs(paper or 0.0)
    allowed = max(float(tolerance), header.paper_stds * std)
    return Target(
        row=row,
        column=column,
        paper=None if paper is None else float(paper),
        std=float(std),
        tolerance=allowed,
        above=above,
        figure=figure,
        panel=entry.get("panel", ""),
        x=entry.get("x"),
        settings=own,
        budget=budget,
    )
