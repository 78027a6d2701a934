"""The weights of an edge table."""

from __future__ import annotations

import logging

import numpy as np
import polars

from atoll.data.table_files import Table
from atoll.data.table_numbers import parse_numbers
from atoll.graph import first_bad_weight

log = logging.getLogger("atoll")

# Columns of an edge table that are likely weights; they are mentioned, never used unasked.
WEIGHT_NAMES = (
    "weight", "weights", "amount", "w", "gewicht", "betrag", "peso", "importe", "monto", "poids",
    "montant", "importo",
)  # fmt: skip


def read_weights(table: Table, column: str) -> np.ndarray | None:
    """The edges' weights ``[e]`` as they are listed; None if there is no such column."""
    if not column:
        found = next((name for name in table.frame.columns if name.lower() in WEIGHT_NAMES), None)
        if found is not None:
            log.warning(
                "%s, column '%s' is not used: every edge weighs 1; set %sweight to '%s' to have it "
                "weigh the edges.",
                table.source,
                found,
                table.prefix,
                found,
            )
        return None
    values = table.column(column, "weight")
    if values.dtype == polars.String:
        numbers = parse_numbers(values, table.decimal)
    else:
        numbers = values.cast(polars.Float64, strict=False)
    if values.null_count():
        row = int(values.is_null().arg_true()[0])
        raise table.problem(column, row, "the weight is missing; give every edge one.")
    if numbers.null_count():
        row = int(numbers.is_null().arg_true()[0])
        wrong = int((numbers.is_null() & values.is_not_null()).sum())
        hint = f" (decimal commas: set {table.prefix}decimal)" if "," in str(values[row]) else ""
        raise table.problem(
            column,
            row,
            f"'{values[row]}' is no number, as {wrong} of {len(values)} weights are not{hint}; "
            f"correct them.",
        )
    weights = numbers.to_numpy().astype(np.float64)
    if (bad := first_bad_weight(weights)) is not None:
        raise table.problem(
            column,
            bad,
            f"the weight is {weights[bad]:g}; weights are finite and at least 0: correct it or "
            f"drop the edge.",
        )
    return weights
