"""The settings of a cell, chosen by validation scores before its seeds are run."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from atoll.errors import AtollError, Interrupted
from atoll.experiment.config import describe
from atoll.reproduction.recipe import Target
from atoll.tuning.tune import Search, tune


@dataclass(frozen=True)
class Chosen:
    """Settings by path, and the validation score they were chosen by, in the metric's own unit."""

    settings: dict[str, Any] = field(default_factory=dict)
    val: float | None = None


def chosen_for(target: Target, seeds: int, runs: Path | None) -> Chosen:
    """What a target's budget finds; nothing to choose without one.

    Trials are kept in a folder of ``runs``, if there is one, so that they go on when interrupted.
    """
    budget = target.budget
    if budget is None:
        return Chosen()
    if budget.seed < seeds:
        raise AtollError(
            f"tuning.seed is {budget.seed}, which is one of the {seeds} seeds that are reported; "
            f"choose another."
        )
    if not budget.over:
        return Chosen()
    table = describe(target.experiment(budget.seed))
    if runs is not None:
        return _searched(target, table, runs / f"search-{_name(target, table)}")
    with tempfile.TemporaryDirectory() as scratch:
        return _searched(target, table, Path(scratch) / "search")


def _searched(target: Target, table: Any, folder: Path) -> Chosen:
    budget = target.budget
    assert budget is not None
    # No trial is given up early: what is equal is the number of whole runs.
    search = Search({"table": table}, budget.over, budget.trials, seeds=1, prune=False)
    try:
        found = tune(search, folder)
    except Interrupted:
        # Not the search alone is to be gone on with.
        raise Interrupted(
            f"interrupted at {target.row} {target.column}; the same command with --missing goes "
            f"on, and with --runs FOLDER also within a cell"
        ) from None
    return Chosen(found.settings, found.score)


def _name(target: Target, table: Any) -> str:
    """A folder's name that follows from all that the search depends on."""
    assert target.budget is not None
    what = json.dumps([version("atoll"), table, target.budget.plain()], sort_keys=True)
    return sha256(what.encode()).hexdigest()[:32]
