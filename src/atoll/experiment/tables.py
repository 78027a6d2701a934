"""The tables of a run directory: scores, rounds and what crossed, as parquet."""

from __future__ import annotations

import io
import logging
from collections.abc import Mapping
from pathlib import Path

import polars

from atoll.errors import AtollError
from atoll.experiment.history import History
from atoll.experiment.looks import TABLES
from atoll.federation.ledger import Ledger
from atoll.files import damaged, write_bytes
from atoll.parquet import NotParquet, read_parquet

log = logging.getLogger("atoll")
LEDGER = "ledger.parquet"


def store_tables(run_dir: Path, history: History, ledger: Ledger | None) -> dict[str, bytes]:
    """Everything recorded so far; without a ledger, all but the table of what crossed.

    Returns the files' content, by name and without the ledger, for the checkpoint that goes with
    them: a run continues from its checkpoint, and loses nothing if these files are lost.
    """
    tables = {"history": history.table(), "rounds": polars.DataFrame(history.rounds)}
    if history.over_all:
        tables["over_all"] = polars.DataFrame(history.over_all)
    contents = {name: _encoded(table) for name, table in (tables | history.looks.tables()).items()}
    for name, content in contents.items():
        write_bytes(run_dir / f"{name}.parquet", content)
    if ledger is not None:
        write_bytes(run_dir / LEDGER, _encoded(ledger.table()))
    return contents


def restore_tables(
    run_dir: Path, kept: Mapping[str, bytes], last: int, history: History, ledger: Ledger
) -> None:
    """What a run had recorded up to a round: ``kept`` in its checkpoint, and its ledger."""
    found = {name: read_parquet(io.BytesIO(content)) for name, content in kept.items()}
    scores, rounds, over_all = (
        found.get(name, polars.DataFrame()) for name in ("history", "rounds", "over_all")
    )
    history.restore(scores, rounds, over_all, last)
    history.looks.restore({name: found[name] for name in TABLES if name in found}, last)
    ledger.before = _crossed(run_dir, last)


def _crossed(run_dir: Path, last: int) -> polars.DataFrame | None:
    """The ledger up to a round; one that is lost is no reason to lose the run."""
    try:
        return read_own(run_dir / LEDGER).filter(polars.col("round") <= last)
    except (AtollError, polars.exceptions.PolarsError) as problem:
        log.warning("%s The run goes on, but its ledger begins with round %d.", problem, last + 1)
    if (run_dir / LEDGER).exists():  # what is left of it may be wanted as evidence
        (run_dir / LEDGER).replace(run_dir / f"damaged-{LEDGER}")
    return None


def read_own(path: Path) -> polars.DataFrame:
    """A table of a run directory; one that is torn or altered is an error."""
    try:
        return read_parquet(path)
    except NotParquet as problem:
        raise damaged(path, problem) from problem


def read_if_there(path: Path) -> polars.DataFrame:
    """A table, or one without columns where there is no such file."""
    return read_own(path) if path.is_file() else polars.DataFrame()


def store_progress(run_dir: Path, history: History) -> None:
    """Scores and rounds so far, for those who watch; a checkpoint has all that is continued from.

    What is later than the checkpoint is dropped when the run is continued.
    """
    write_bytes(run_dir / "history.parquet", _encoded(history.table()))
    write_bytes(run_dir / "rounds.parquet", _encoded(polars.DataFrame(history.rounds)))


def _encoded(table: polars.DataFrame) -> bytes:
    file = io.BytesIO()
    table.rechunk().write_parquet(file)
    return file.getvalue()
