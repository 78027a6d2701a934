"""Node features, dense or sparse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from scipy import sparse

Features: TypeAlias = "np.ndarray | sparse.csr_array"
_AT_ONCE = 1_000_000


def dense(x: Features) -> np.ndarray:
    return x.toarray() if sparse.issparse(x) else x  # type: ignore[union-attr]


def entries(x: Features) -> int:
    """How many numbers are stored."""
    return int(x.nnz if sparse.issparse(x) else x.size)  # type: ignore[union-attr]


def row_normalised(x: Features) -> Features:
    """Each row divided by its sum; rows that sum to zero stay as they are."""
    total = np.asarray(x.sum(axis=1), dtype=np.float64).reshape(-1)
    scale = np.divide(1.0, total, out=np.ones_like(total), where=total != 0)
    if sparse.issparse(x):
        return sparse.csr_array(sparse.diags_array(scale) @ x).astype(x.dtype)
    return (x * scale[:, None]).astype(x.dtype)


def stacked(blocks: Sequence[Features]) -> Features:
    """Rows of all blocks, one block below the other; sparse where any block is."""
    if any(sparse.issparse(block) for block in blocks):
        return sparse.csr_array(sparse.vstack([sparse.csr_array(block) for block in blocks]))
    return np.concatenate([np.asarray(block) for block in blocks])


def first_not_finite(x: Features) -> tuple[int, int] | None:
    """Row and column of the first feature that is NaN or infinite; None if there is none."""
    values = x.data if sparse.issparse(x) else x
    parts = (values[i : i + _AT_ONCE] for i in range(0, len(values), _AT_ONCE))
    if all(np.isfinite(part).all() for part in parts):
        return None
    stored = sparse.coo_array(x)
    at = np.flatnonzero(~np.isfinite(stored.data))[0]
    rows, columns = stored.coords
    return int(rows[at]), int(columns[at])
