"""The edges of an edge table, with their weights, in row numbers of the node table."""

from __future__ import annotations

import logging

import numpy as np
import polars

from atoll.data.table_columns import Columns, first_row, keys_of
from atoll.data.table_files import Table
from atoll.data.table_weights import read_weights

log = logging.getLogger("atoll")


def read_edges(
    table: Table, columns: Columns, ids: polars.Series, nodes: str
) -> tuple[np.ndarray, np.ndarray | None]:
    """The edges ``[2, e]`` as they are listed and their weights ``[e]``, if they have any.

    An edge that ends at no node of ``nodes`` is refused, or left out if the columns say so.
    """
    ends = np.stack([_places(table, columns, end, ids, nodes) for end in ("source", "target")])
    weights = read_weights(table, columns.weight)
    known = np.all(ends >= 0, axis=0)
    if known.all():
        return ends, weights
    log.warning(
        "%s: %d of %d edges are left out, since an end of theirs is no node of %s.",
        table.source,
        int((~known).sum()),
        len(known),
        nodes,
    )
    return ends[:, known], None if weights is None else weights[known]


def _places(
    table: Table, columns: Columns, option: str, ids: polars.Series, nodes: str
) -> np.ndarray:
    """Where one end of every edge stands among the ids; -1 for a stranger that may be left out."""
    column = getattr(columns, option)
    keys = keys_of(table, column, option)
    if (row := first_row(keys.is_null())) is not None:
        raise table.problem(column, row, "the id is missing; give every edge two ends.")
    if keys.dtype != ids.dtype:
        keys, ids = keys.cast(polars.String), ids.cast(polars.String)
    known = polars.DataFrame({"key": ids, "row": np.arange(len(ids), dtype=np.int64)})
    found = keys.to_frame("key").join(known, on="key", how="left", maintain_order="left")["row"]
    if columns.unknown_ends == "error" and (row := first_row(found.is_null())) is not None:
        raise table.problem(
            column,
            row,
            f"'{keys[row]}' is no node of {nodes}; add it there or drop the edge.",
        )
    return found.fill_null(-1).to_numpy().astype(np.int64)
