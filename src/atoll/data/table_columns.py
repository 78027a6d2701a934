"""The columns of node and edge tables that are not features: ids, labels, splits and owners."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import polars

from atoll.data.table_files import Table, read_table
from atoll.data.table_numbers import Decimal, Missing
from atoll.errors import AtollError
from atoll.graph import SPLITS, Holding, nodes_of
from atoll.options import check_options


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What the columns of a node table and an edge table mean.

    ``id`` and ``label`` name columns of the node table, ``source`` and ``target`` of the edge
    table. ``split`` may name a column that says train, val, test or nothing. ``features`` lists the
    feature columns (every other column if empty), ``categorical`` those to be read as categories
    although they hold numbers, ``class_names`` all classes in their order (the labels found,
    sorted, if empty). ``standardise`` scales number columns to mean 0 and deviation 1, both of the
    party's own training nodes. Edges count both ways unless ``directed``. ``weight`` may name a
    column of the edge table that holds the edges' weights; ``weight_scale = "log"`` takes
    log(1 + weight), which amounts of money need: beside a neighbour of weight 5,000 the node
    itself, which weighs 1, would count for nothing. An edge that ends at no node of the node table
    is an ``error``, or is left out: ``unknown_ends = "drop"``.

    ``missing`` is what becomes of missing numbers: an ``error``; the ``median`` or ``mean`` of the
    party's own training nodes; or an ``indicator``: the median, and a further feature that says so.

    ``separator`` stands between the fields of CSV files and ``decimal`` in their numbers (the other
    mark may then set thousands apart); ``edges_separator`` and ``edges_decimal`` are those of the
    edge table, where it has others.
    """

    id: str = "id"
    label: str = "label"
    source: str = "source"
    target: str = "target"
    split: str = ""
    features: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    standardise: bool = False
    directed: bool = False
    separator: str = ","
    weight: str = ""
    weight_scale: Literal["given", "log"] = "given"
    unknown_ends: Literal["error", "drop"] = "error"
    missing: Missing = "error"
    decimal: Decimal = ""
    edges_separator: str = ""
    edges_decimal: Decimal = ""

    def __post_init__(self) -> None:
        check_options("data", self)
        for option in ("id", "label", "source", "target"):
            if not getattr(self, option):
                raise AtollError(f"data.{option} is empty; set it to the name of a column.")
        if self.source == self.target:
            raise AtollError(
                f"data.source and data.target both name the column '{self.source}'; an edge needs "
                f"two."
            )
        for option in ("separator", "edges_separator"):
            mark = getattr(self, option)
            if (mark or option == "separator") and (len(mark) != 1 or not mark.isascii()):
                raise AtollError(
                    f"data.{option} is {mark!r}; it must be one ASCII character, such as , or ; or "
                    f'"\\t".'
                )
        if self.weight and self.weight in (self.source, self.target):
            raise AtollError(
                f"data.weight names '{self.weight}', an end of the edges; name the column that "
                f"holds their weights."
            )
        for option in ("features", "categorical", "class_names"):
            names = getattr(self, option)
            if len(set(names)) != len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise AtollError(f"data.{option} lists '{twice}' twice; list it once.")
        roles = self.roles()
        for option, name in roles.items():
            if name in self.features:
                raise AtollError(
                    f"data.features lists '{name}', which data.{option} names already; take it out "
                    f"of the features."
                )
            twin = next((o for o, other in roles.items() if other == name and o != option), None)
            if twin is not None:
                raise AtollError(
                    f"data.{option} and data.{twin} both name the column '{name}'; name two."
                )

    def read_nodes(self, path: str | Path, text: Collection[str]) -> Table:
        """The node table."""
        return read_table(path, "nodes", separator=self.separator, decimal=self.decimal, text=text)

    def read_edges(self, path: str | Path, may_be_empty: bool = False) -> Table:
        """The edge table."""
        return read_table(
            path,
            "edges",
            separator=self.edges_separator or self.separator,
            decimal=self.edges_decimal or self.decimal,
            text=(self.source, self.target),
            may_be_empty=may_be_empty,
        )

    def roles(self) -> dict[str, str]:
        """The columns of the node table that are not features, by option."""
        return {o: getattr(self, o) for o in ("id", "label", "split") if getattr(self, o)}

    def as_text(self) -> tuple[str, ...]:
        """The columns of the node table to be read as written: 007 is not 7."""
        return (*self.roles().values(), *self.categorical)


def read_ids(table: Table, column: str) -> polars.Series:
    """The nodes' ids as the file has them, text or whole numbers, each one once."""
    ids = keys_of(table, column, "id")
    if (row := first_row(ids.is_null())) is not None:
        raise table.problem(column, row, "the id is missing; give every node one.")
    if (row := first_row(~ids.is_first_distinct())) is not None:
        before = ids.index_of(ids[row])
        assert before is not None
        raise table.problem(
            column,
            row,
            f"the id '{ids[row]}' stands in {table.place(before)} already; give every node one "
            f"row.",
        )
    return ids


def label_names(table: Table, column: str) -> polars.Series:
    """The nodes' labels as text; null where unknown."""
    labels = table.column(column, "label")
    names = as_names(table, column, labels)
    numbers = names.cast(polars.Float64, strict=False)
    all_numbers = numbers.null_count() == names.null_count()
    if all_numbers and (row := first_row(numbers != numbers.round())) is not None:
        raise table.problem(
            column,
            row,
            f"{labels[row]} is no class; labels are text or whole numbers, empty where unknown.",
        )
    return names


def class_numbers(
    table: Table, column: str, names: polars.Series, classes: tuple[str, ...]
) -> np.ndarray:
    """The labels' places among the classes ``[n]``, -1 where unknown."""
    y = numbered(names, classes)
    if (row := first_row(y.is_null() & names.is_not_null())) is not None:
        raise table.problem(
            column,
            row,
            f"'{names[row]}' is none of the classes {', '.join(classes)}; correct it, or add it to "
            f"{table.prefix}class_names.",
        )
    return y.fill_null(-1).to_numpy().astype(np.int64)


def numbered(names: polars.Series, order: tuple[str, ...]) -> polars.Series:
    """The place of each name in an order; null for null and for unknown names."""
    known = polars.DataFrame(
        {"key": order, "place": range(len(order))},
        schema={"key": polars.String, "place": polars.Int64},
    )
    return names.to_frame("key").join(known, on="key", how="left", maintain_order="left")["place"]


def sorted_names(names: Iterable[str]) -> tuple[str, ...]:
    """Names in order; whole numbers by size, so that 10 comes after 9."""
    distinct = set(names)
    try:
        return tuple(sorted(distinct, key=lambda name: (int(name), name)))
    except ValueError:
        return tuple(sorted(distinct))


def as_names(table: Table, column: str, values: polars.Series) -> polars.Series:
    """Values as names: 1.0 is 1, as tables with gaps write whole numbers; NaN is null."""
    if not (values.dtype.is_numeric() or values.dtype in (polars.String, polars.Boolean)):
        if values.dtype == polars.Null:
            return values.cast(polars.String)
        raise table.unfit(
            column, f"it holds {values.dtype}; only text, numbers and booleans can be names."
        )
    names = polars.col("name").cast(polars.String).str.replace(r"^(-?\d+)\.0*$", "$1")
    named = values.to_frame("name").select(names.replace(["NaN", "nan", ""], [None, None, None]))
    return named["name"].alias(values.name)


def read_splits(table: Table, column: str, y: np.ndarray) -> dict[str, np.ndarray]:
    """Masks ``[n]`` from a column that says train, val, test or nothing."""
    parts = table.column(column, "split")
    if parts.dtype == polars.Null:
        parts = parts.cast(polars.String)
    if parts.dtype != polars.String:
        raise table.unfit(column, f"it holds {parts.dtype}; write train, val, test or nothing.")
    parts = parts.replace("", None)
    if (row := first_row(parts.is_not_null() & ~parts.is_in(SPLITS))) is not None:
        raise table.problem(
            column, row, f"'{parts[row]}' is no split; write train, val, test or nothing."
        )
    if (row := first_row(parts.is_not_null() & polars.Series(y < 0))) is not None:
        raise table.problem(
            column,
            row,
            f"the node is in {parts[row]} but has no label; leave its split empty or label it.",
        )
    return {split: (parts == split).fill_null(False).to_numpy() for split in SPLITS}


def read_owners(table: Table, column: str) -> tuple[Holding, ...]:
    """A natural holding for each owner that a column names, in order of their names."""
    owners = as_names(table, column, table.column(column, "owner"))
    if (row := first_row(owners.is_null())) is not None:
        raise table.problem(column, row, "the owner is missing; give every node one.")
    names = sorted_names(owners)
    nodes = nodes_of(numbered(owners, names).to_numpy(), len(names))
    return tuple(map(Holding, names, nodes))


def id_array(ids: polars.Series) -> np.ndarray:
    """Ids as an array of text or whole numbers, never of objects."""
    return np.array(ids.to_list(), dtype=str) if ids.dtype == polars.String else ids.to_numpy()


def keys_of(table: Table, column: str, option: str) -> polars.Series:
    """Ids as the file has them; null where there is none."""
    keys = table.column(column, option)
    if keys.dtype == polars.String:
        return keys.replace("", None)
    if keys.dtype.is_integer():
        return keys
    if keys.dtype == polars.Null:
        return keys.cast(polars.String)
    raise table.unfit(column, f"it holds {keys.dtype}; ids are text or whole numbers.")


def first_row(where: polars.Series) -> int | None:
    """The first row where something holds; null does not."""
    rows = where.arg_true()
    return int(rows[0]) if len(rows) else None
