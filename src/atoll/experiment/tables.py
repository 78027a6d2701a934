"""The tables of a run directory: scores, rounds and what crossed, as parquet."""

from __future__ import annotations

from pathlib import Path

import polars

from atoll.errors import AtollError
from atoll.experiment.history import History
from atoll.federation.ledger import Ledger
from atoll.files import damaged, written_whole

_NOTHING = polars.DataFrame()


def store_tables(run_dir: Path, history: History, ledger: Ledger | None) -> None:
    """Everything recorded so far; without a ledger, all but the table of what crossed."""
    _write(run_dir / "history.parquet", history.table())
    _write(run_dir / "rounds.parquet", polars.DataFrame(history.rounds))
    if history.over_all:
        _write(run_dir / "over_all.parquet", polars.DataFrame(history.over_all))
    if ledger is not None:
        _write(run_dir / "ledger.parquet", ledger.table())


def restore_tables(run_dir: Path, last: int, history: History, ledger: Ledger) -> None:
    """What a run had recorded up to a round."""
    scores, rounds, crossed = (
        read_parquet(run_dir / f"{table}.parquet") for table in ("history", "rounds", "ledger")
    )
    path = run_dir / "over_all.parquet"
    history.restore(scores, rounds, read_parquet(path) if path.is_file() else _NOTHING, last)
    ledger.before = crossed.filter(polars.col("round") <= last)
    if len(history.rounds) != last:
        raise AtollError(
            f"the run directory is damaged: '{run_dir / 'rounds.parquet'}' ends before its "
            f"checkpoint; start the run anew."
        )


def read_parquet(path: Path) -> polars.DataFrame:
    try:
        return polars.read_parquet(path)
    except (OSError, polars.exceptions.PolarsError) as problem:
        raise damaged(path, problem) from problem


def _write(path: Path, table: polars.DataFrame) -> None:
    with written_whole(path) as part:
        table.rechunk().write_parquet(part)
