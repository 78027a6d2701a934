"""What was fitted to a node table, kept so that rows of another table become the same features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars

from atoll.data.table_columns import Columns, as_names, numbered
from atoll.data.table_dates import parse_dates
from atoll.data.table_features import Feature, encode, raw_numbers
from atoll.data.table_files import Table
from atoll.data.table_numbers import (
    Group,
    Missing,
    filled,
    filling,
    is_gap,
    parse_numbers,
    refuse_holes,
)
from atoll.data.table_scale import Scale, Scales
from atoll.errors import AtollError
from atoll.files import damaged
from atoll.graph import Features

FILE = "preprocessing.json"


@dataclass(frozen=True)
class Preprocessing:
    """The feature columns with their categories and scales, and the classes, of a trained model.

    ``scales`` are by column and party, as are ``fills``, which gaps get where ``missing`` says so.
    """

    features: tuple[Feature, ...]
    scales: Mapping[str, Mapping[str, Scale]]
    class_names: tuple[str, ...]
    missing: Missing = "error"
    fills: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def fitted(
        cls,
        table: Table,
        features: Sequence[Feature],
        columns: Columns,
        classes: tuple[str, ...],
        parties: Mapping[str, Group],
    ) -> Self:
        scales: dict[str, dict[str, Scale]] = {}
        fills = {}
        missing, groups = columns.missing, list(parties.values())
        for feature in features:
            if feature.kind == "category":
                continue
            values = raw_numbers(table, feature)
            if missing != "error" and feature.kind != "vector":
                found = {p: filling(values, group, missing) for p, group in parties.items()}
                fills[feature.column] = {p: fill for p, fill in found.items() if fill == fill}
                values = filled(table, feature.column, values, missing, groups)
            refuse_holes(table, feature.column, values)
            if columns.standardise:
                own = values.shape[1] - feature.indicator
                scales[feature.column] = {
                    party: Scale.of(values[:, :own], group) for party, group in parties.items()
                }
        return cls(tuple(features), scales, classes, missing, fills)

    def encode(self, table: Table, parties: Sequence[str] | None = None) -> Features:
        """The features of a table's rows ``[n, f]``, as those of the nodes trained on.

        ``parties`` says whose each row is; its scale and what gaps get are the party's own, or the
        mean of all parties' where it has none.
        """
        self.require_columns(table)
        for feature in self.features:
            if feature.kind == "category":
                _refuse_new_category(table, feature)
            else:
                _refuse_text(table, feature)
        whose = [""] * table.frame.height if parties is None else parties
        fills = {}
        for column, by_party in self.fills.items():
            usual = float(np.mean(list(by_party.values()))) if by_party else 0.0
            fills[column] = np.array([by_party.get(party, usual) for party in whose])
        scales = {column: Scales(by_party, whose) for column, by_party in self.scales.items()}
        return encode(table, list(self.features), scales, self.missing, fills=fills)[0]

    def require_columns(self, table: Table) -> None:
        """Refuse a table that lacks what the model was trained on."""
        missing = [f.column for f in self.features if f.column not in table.frame.columns]
        if missing:
            raise AtollError(
                f"{table.source} has no column '{missing[0]}', which the model was trained on; add "
                f"it."
            )

    def as_json(self) -> dict[str, Any]:
        columns = []
        for feature in self.features:
            facts = {name: value for name, value in asdict(feature).items() if value != ()}
            if feature.column in self.scales:
                scales = self.scales[feature.column].items()
                facts["scale"] = {party: asdict(scale) for party, scale in scales}
            if feature.column in self.fills:
                facts["fill"] = dict(self.fills[feature.column])
            columns.append(facts)
        names = [name for feature in self.features for name in feature.names()]
        return {
            "columns": columns,
            "missing": self.missing,
            "class_names": list(self.class_names),
            "feature_names": names,
        }

    @classmethod
    def of_json(cls, found: Any, path: Path) -> Self:
        try:
            features, scales, fills = [], {}, {}
            for column in found["columns"]:
                categories = tuple(column.get("categories", ()))
                name = column["column"]
                sizes = column["width"], column["indicator"]
                features.append(Feature(name, column["kind"], categories, *sizes))
                if "fill" in column:
                    fills[name] = dict(column["fill"])
                if "scale" in column:
                    scales[name] = {
                        party: Scale(tuple(scale["mean"]), tuple(scale["deviation"]))
                        for party, scale in column["scale"].items()
                    }
            classes = tuple(found["class_names"])
            return cls(tuple(features), scales, classes, found["missing"], fills)
        except (KeyError, TypeError, AttributeError) as problem:
            raise damaged(path, problem) from problem


def _refuse_new_category(table: Table, feature: Feature) -> None:
    names = as_names(table, feature.column, table.frame[feature.column])
    places = numbered(names, feature.categories)
    new = (places.is_null() & names.is_not_null()).arg_true()
    if len(new):
        row = int(new[0])
        raise table.problem(
            feature.column,
            row,
            f"'{names[row]}' is none of the categories the model was trained on "
            f"({', '.join(feature.categories)}); correct it, or leave the cell empty.",
        )


def _refuse_text(table: Table, feature: Feature) -> None:
    values = table.frame[feature.column]
    if feature.kind == "vector":
        if not isinstance(values.dtype, polars.List | polars.Array):
            raise table.unfit(
                feature.column, f"it holds {values.dtype}; the model was trained on lists."
            )
        return
    date = feature.kind == "date"
    if values.dtype == polars.String:
        numbers = parse_dates(values) if date else parse_numbers(values, table.decimal)
        wrong = (~is_gap(values) & numbers.is_null()).arg_true()
        if len(wrong):
            row = int(wrong[0])
            raise table.problem(
                feature.column,
                row,
                f"'{values[row]}' is no {feature.kind}, but the model was trained on "
                f"{feature.kind}s; correct it.",
            )
        return
    fits = values.dtype.is_temporal() if date else values.dtype.is_numeric()
    if not (fits or values.dtype == polars.Null):
        raise table.unfit(
            feature.column, f"it holds {values.dtype}; the model was trained on {feature.kind}s."
        )
