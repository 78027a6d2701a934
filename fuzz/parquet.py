"""Parquet files of others: read or refused in words, and never the end of the process.

python fuzz/parquet.py [--count 1000000] [--seed 0] [--only MUTANT]
"""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars

from atoll.data.table_files import read_table
from atoll.errors import AtollError
from harness import Target, main


def frames() -> list[polars.DataFrame]:
    """Tables of the kinds that parties and runs have: texts with gaps, numbers, lists, truths."""
    rng = np.random.default_rng(0)
    n = np.arange(40)
    words = [["a", "b", None][i % 3] for i in n]
    return [
        polars.DataFrame(
            {
                "id": [f"n{i}" for i in n],
                "label": words,
                "kind": polars.Series(words, dtype=polars.Categorical),
                "x": rng.random(40),
                "train": n % 2 == 0,
                "since": [datetime(2026, 1, 1 + i % 28, tzinfo=UTC) for i in n],
                "both": [{"a": i, "b": "x"} for i in n],
            }
        ),
        polars.DataFrame(
            {
                "id": n,
                "at": [[1, 2, 3][: i % 4] for i in n],
                "value": [[0.1, 0.2, 0.3][: i % 4] for i in n],
            }
        ),
        polars.DataFrame({"source": [f"n{i % 7}" for i in n], "target": n % 5}),
    ]


def seeds() -> list[bytes]:
    found = []
    for frame in frames():
        for compression in ("zstd", "snappy", "uncompressed"):
            file = io.BytesIO()
            frame.write_parquet(file, compression=compression)
            found.append(file.getvalue())
    return found


def make(folder: Path) -> Target:
    path = folder / "table.parquet"

    def attempt(content: bytes) -> bool:
        path.write_bytes(content)
        try:
            read_table(path, "nodes").frame.to_dicts()  # every value is looked at
        except AtollError:
            return False
        return True

    return Target(seeds(), attempt)


if __name__ == "__main__":
    main(make, __file__, __doc__)
