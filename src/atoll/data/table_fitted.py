"""What was fitted to a node table, kept so that rows of another table become the same features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars

from atoll.data.table_columns import as_names, numbered
from atoll.data.table_features import Feature, encode, number_columns
from atoll.data.table_files import Table
from atoll.errors import AtollError
from atoll.files import damaged
from atoll.graph import Features

FILE = "preprocessing.json"


@dataclass(frozen=True)
class Scale:
    """The mean and deviation of a column's numbers; a deviation of 0 stands for a constant."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def apply(self, values: np.ndarray) -> np.ndarray:
        mean, deviation = np.array(self.mean), np.array(self.deviation)
        varies = deviation > 0
        scaled: np.ndarray = np.where(
            varies, (values - mean) / np.where(varies, deviation, 1.0), 0.0
        )
        return scaled


@dataclass(frozen=True)
class Preprocessing:
    """The feature columns with their categories and scales, and the classes, of a trained model."""

    features: tuple[Feature, ...]
    scales: Mapping[str, Scale]
    class_names: tuple[str, ...]

    @classmethod
    def fitted(
        cls, table: Table, features: Sequence[Feature], standardise: bool, classes: tuple[str, ...]
    ) -> Self:
        scales = {}
        for feature in features if standardise else ():
            if feature.kind == "category":
                continue
            values = number_columns(table, feature)
            deviation = values.std(axis=0)
            # The deviation of a constant column is rounding error, not always zero.
            varies = deviation > 1e-12 * np.abs(values).max(axis=0)
            mean = tuple(values.mean(axis=0).tolist())
            scales[feature.column] = Scale(mean, tuple(np.where(varies, deviation, 0.0).tolist()))
        return cls(tuple(features), scales, classes)

    def encode(self, table: Table) -> Features:
        """The features of a table's rows ``[n, f]``, as those of the nodes trained on."""
        self.require_columns(table)
        for feature in self.features:
            if feature.kind == "category":
                _refuse_new_category(table, feature)
            else:
                _refuse_text(table, feature)
        return encode(table, list(self.features), self.scales)[0]

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
            scale = self.scales.get(feature.column)
            facts = {name: value for name, value in asdict(feature).items() if value != ()}
            columns.append(facts | ({} if scale is None else asdict(scale)))
        names = [name for feature in self.features for name in feature.names()]
        return {
            "columns": columns,
            "class_names": list(self.class_names),
            "feature_names": names,
        }

    @classmethod
    def of_json(cls, found: Any, path: Path) -> Self:
        try:
            features, scales = [], {}
            for column in found["columns"]:
                categories = tuple(column.get("categories", ()))
                name = column["column"]
                features.append(Feature(name, column["kind"], categories, column["width"]))
                if "mean" in column:
                    scales[name] = Scale(tuple(column["mean"]), tuple(column["deviation"]))
            return cls(tuple(features), scales, tuple(found["class_names"]))
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
    if values.dtype == polars.String:
        numbers = values.str.strip_chars().cast(polars.Float64, strict=False)
        wrong = (values.is_not_null() & numbers.is_null()).arg_true()
        if len(wrong):
            row = int(wrong[0])
            raise table.problem(
                feature.column,
                row,
                f"'{values[row]}' is no number, but the model was trained on numbers; correct it.",
            )
    elif not (values.dtype.is_numeric() or values.dtype == polars.Null):
        raise table.unfit(
            feature.column, f"it holds {values.dtype}; the model was trained on numbers."
        )
