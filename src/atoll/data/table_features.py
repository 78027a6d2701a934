"""The feature columns of a node table as a matrix: numbers, categories, vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
import polars
from scipy import sparse

from atoll.data.table_columns import Columns, as_names, numbered, sorted_names
from atoll.data.table_dates import are_dates, parse_dates, refuse_other_dates
from atoll.data.table_files import Table
from atoll.data.table_numbers import (
    Group,
    Missing,
    filled,
    is_gap,
    missing_number,
    parse_numbers,
    refuse_comma_numbers,
    refuse_holes,
    single,
    with_fills,
)
from atoll.data.table_scale import scaled
from atoll.data.table_units import refuse_units
from atoll.errors import AtollError
from atoll.graph import Features

_MOST_CATEGORIES = 1000
# Below this width, or above this share of non-zeros, a sparse matrix saves nothing.
_SPARSE_FROM_WIDTH = 64
_SPARSE_BELOW = 0.25


@dataclass(frozen=True)
class Feature:
    """How one column becomes features: itself, one per category, or one per place of a vector.

    ``indicator`` adds a feature that says where a number is missing.
    """

    column: str
    kind: Literal["number", "date", "category", "vector"]
    categories: tuple[str, ...] = ()
    width: int = 1
    indicator: bool = False

    def names(self) -> list[str]:
        if self.kind == "category":
            return [f"{self.column}={category}" for category in self.categories]
        if self.kind == "vector":
            return [f"{self.column}[{place}]" for place in range(self.width)]
        return [self.column, f"{self.column} missing"] if self.indicator else [self.column]


def find_features(
    table: Table, columns: Columns, categories: Mapping[str, tuple[str, ...]] | None = None
) -> list[Feature]:
    """What the chosen columns are; by default every column without another role.

    ``categories`` fixes the categories of some columns where they are agreed beforehand.
    """
    taken = set(columns.roles().values())
    agreed = categories or {}
    chosen = columns.features or [name for name in table.frame.columns if name not in taken]
    if not chosen:
        raise AtollError(
            f"{table.source} has no feature {table.noun}; add at least one, such as each node's "
            f"degree."
        )
    for name in (*columns.categorical, *agreed):
        table.column(name, "categorical")
        if name not in chosen:
            raise AtollError(
                f"the categorical {table.noun} '{name}' is not among the features of "
                f"{table.source}; add it to {table.prefix}features, or make it no category."
            )
    found = [
        _feature(table, name, name in columns.categorical or name in agreed, agreed.get(name, ()))
        for name in chosen
    ]
    # For every number, gaps or not: a party alone then has the same features as all together.
    indicator = columns.missing == "indicator"
    return [replace(f, indicator=indicator and f.kind in ("number", "date")) for f in found]


def common_features(first: Table, ours: list[Feature], other: Table, theirs: list[Feature]) -> None:
    """Raise unless two parties' tables have the same feature columns of the same kinds."""
    named = {feature.column: feature for feature in theirs}
    missing = next((feature.column for feature in ours if feature.column not in named), None)
    if missing is not None:
        raise AtollError(
            f"{other.source} has no column '{missing}', which {first.source} has; give all parties "
            f"the same feature columns, or list the common ones in data.features."
        )
    extra = sorted(set(named) - {feature.column for feature in ours})
    if extra:
        raise AtollError(
            f"{first.source} has no column '{extra[0]}', which {other.source} has; give all "
            f"parties the same feature columns, or list the common ones in data.features."
        )
    for feature in ours:
        twin = named[feature.column]
        if (feature.kind, feature.width) != (twin.kind, twin.width):
            raise AtollError(
                f"column '{feature.column}' holds {_described(feature)} in {first.source} but "
                f"{_described(twin)} in {other.source}; make them alike, or list the column in "
                f"data.categorical."
            )


def united(parties: Sequence[list[Feature]]) -> list[Feature]:
    """The features of several parties that agree, with the categories of all, sorted if unequal."""
    by_column = [{feature.column: feature for feature in features} for features in parties]
    result = []
    for feature in parties[0]:
        found = [features[feature.column].categories for features in by_column]
        if any(categories != feature.categories for categories in found):
            feature = replace(feature, categories=sorted_names(c for some in found for c in some))
        result.append(feature)
    return result


class Scaled(Protocol):
    """How a column's numbers are scaled."""

    def apply(self, values: np.ndarray) -> np.ndarray: ...


def encode(
    table: Table,
    features: list[Feature],
    standardise: bool | Mapping[str, Scaled],
    missing: Missing = "error",
    groups: Sequence[Group] | None = None,
    fills: Mapping[str, np.ndarray] | None = None,
) -> tuple[Features, tuple[str, ...]]:
    """The feature matrix ``[n, f]`` float32, sparse where that saves, and its columns' names.

    ``standardise`` scales number columns by each party's mean and deviation, or by given ones;
    ``missing`` says how gaps are filled. ``groups`` are the parties' rows, and those of them that
    both are fitted to: all rows by default. ``fills`` has what was found before, one number per
    row, by column.
    """
    blocks: list[Features] = []
    every = np.arange(table.frame.height)
    party = groups or [(every, every)]
    for feature in features:
        if feature.kind == "category":
            blocks.append(_one_hot(table, feature))
        else:
            values = raw_numbers(table, feature)
            if feature.kind != "vector":
                if fills is None:
                    values = filled(table, feature.column, values, missing, party)
                elif feature.column in fills:
                    values = with_fills(values, fills[feature.column], missing)
            refuse_holes(table, feature.column, values)
            own = values.shape[1] - feature.indicator
            if standardise is True:
                values = np.concatenate([scaled(values[:, :own], party), values[:, own:]], axis=1)
            elif standardise and feature.column in standardise:
                numbers = standardise[feature.column].apply(values[:, :own])
                values = np.concatenate([numbers, values[:, own:]], axis=1)
            blocks.append(single(table, feature.column, values))
    names = tuple(name for feature in features for name in feature.names())
    stored = sum(b.nnz if sparse.issparse(b) else np.count_nonzero(b) for b in blocks)  # type: ignore[union-attr, misc]
    if len(names) >= _SPARSE_FROM_WIDTH and stored <= _SPARSE_BELOW * table.frame.height * len(
        names
    ):
        return sparse.csr_array(sparse.hstack([sparse.csr_array(b) for b in blocks])), names
    dense = [b.toarray() if sparse.issparse(b) else b for b in blocks]  # type: ignore[union-attr]
    return np.concatenate(dense, axis=1), names


def raw_numbers(table: Table, feature: Feature) -> np.ndarray:
    """The numbers of a column, or of the places of its vectors ``[n, width]``; NaN for a gap."""
    return (_vectors if feature.kind == "vector" else _numbers)(table, feature)


def _feature(table: Table, name: str, categorical: bool, agreed: tuple[str, ...]) -> Feature:
    values = table.column(name, "features")
    kind = values.dtype
    if values.null_count() == len(values):
        raise table.unfit(name, "it is empty; fill it, or leave it out of data.features.")
    if categorical or kind == polars.Boolean or (kind == polars.String and _is_text(table, name)):
        return Feature(name, "category", agreed or _categories(table, name))
    if kind.is_temporal() and kind != polars.Duration and kind != polars.Time:
        return Feature(name, "date")
    if kind == polars.String and not table.typed and are_dates(values):
        return Feature(name, "date")
    if kind == polars.String or kind.is_numeric():
        return Feature(name, "number")
    if isinstance(kind, polars.List | polars.Array) and (
        kind.inner is not None and kind.inner.is_numeric()
    ):
        lists = values.drop_nulls().cast(polars.List(polars.Float64))
        return Feature(name, "vector", width=int(lists.list.len()[0]))
    raise table.unfit(
        name,
        f"it holds {kind}; features are numbers, text, booleans or lists of numbers: convert it, "
        f"or leave it out of {table.prefix}features.",
    )


def _is_text(table: Table, name: str) -> bool:
    """Whether text means categories; in a CSV file, text among numbers is a mistake."""
    values = table.frame[name]
    if table.typed:
        return True
    if are_dates(values):
        return False
    refuse_comma_numbers(table, name)
    numbers = parse_numbers(values, table.decimal)
    wrong = (~is_gap(values) & numbers.is_null()).arg_true()
    right = numbers.is_not_null().arg_true()
    if not len(right):
        refuse_units(table, name)
        refuse_other_dates(table, name)
        return True
    if not len(wrong):
        return False
    row = int(wrong[0])
    raise table.problem(
        name,
        row,
        f"'{values[row]}' stands in a column that also holds numbers ({values[int(right[0])]} in "
        f"{table.place(int(right[0]))}); correct it, or list the column in "
        f"{table.prefix}categorical.",
    )


def _categories(table: Table, name: str) -> tuple[str, ...]:
    categories = sorted_names(as_names(table, name, table.frame[name]).drop_nulls().unique())
    if len(categories) > _MOST_CATEGORIES:
        raise table.unfit(
            name,
            f"it holds {len(categories)} different texts, more than the {_MOST_CATEGORIES} that "
            f"can be categories; leave it out by listing the feature columns in "
            f"{table.prefix}features.",
        )
    return categories


def _one_hot(table: Table, feature: Feature) -> sparse.csr_array:
    """A row with a one at the node's category; a row of zeros where it has none."""
    names = as_names(table, feature.column, table.frame[feature.column])
    places = numbered(names, feature.categories)
    unlisted = (places.is_null() & names.is_not_null()).arg_true()
    if len(unlisted):
        row = int(unlisted[0])
        raise table.problem(
            feature.column,
            row,
            f"'{names[row]}' is none of the categories {', '.join(feature.categories)}; correct "
            f"it, or add it to the categories all parties agreed on.",
        )
    known = places.is_not_null().to_numpy()
    rows = np.flatnonzero(known)
    ones = np.ones(len(rows), dtype=np.float32)
    shape = (len(places), len(feature.categories))
    return sparse.csr_array((ones, (rows, places.drop_nulls().to_numpy())), shape=shape)


def _numbers(table: Table, feature: Feature) -> np.ndarray:
    values = table.frame[feature.column]
    if feature.kind == "date":
        numbers = parse_dates(values)
    elif values.dtype == polars.String:
        numbers = parse_numbers(values, table.decimal)
    else:
        numbers = values.cast(polars.Float64)
    return numbers.to_numpy().astype(np.float64)[:, None]


def _vectors(table: Table, feature: Feature) -> np.ndarray:
    values = table.frame[feature.column].cast(polars.List(polars.Float64))
    lengths = values.list.len()
    odd = (lengths.is_null() | (lengths != feature.width)).arg_true()
    if len(odd):
        row = int(odd[0])
        if lengths[row] is None:
            raise missing_number(table, feature.column, row)
        raise table.problem(
            feature.column,
            row,
            f"the list has {lengths[row]} numbers, others have {feature.width}; give every node as "
            f"many.",
        )
    return values.explode().to_numpy().astype(np.float64).reshape(len(values), feature.width)


def _described(feature: Feature) -> str:
    return {
        "number": "numbers",
        "date": "dates",
        "category": "categories",
        "vector": f"lists of {feature.width} numbers",
    }[feature.kind]
