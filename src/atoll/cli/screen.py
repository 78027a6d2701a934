"""What commands show: results on stdout, progress on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from atoll.cli.quiet import is_quiet

if TYPE_CHECKING:
    from atoll.experiment.config import Experiment
    from atoll.experiment.result import Result
    from atoll.experiment.runner import Progress


def show_results(results: list[Result], as_json: bool, kept_in: Path | None = None) -> None:
    """One row per run, and whether joining pays; or its summary as JSON.

    ``kept_in`` is the directory of all of them, where there is one.
    """
    from atoll.report.console import console
    from atoll.report.tables import comparison, joining

    if as_json:
        summaries = [result.summary() for result in results]
        print(json.dumps(summaries[0] if len(summaries) == 1 else summaries))
        return
    screen = console()
    screen.print(comparison(results))
    alone = [r for r in results if r.experiment.method.registered_name == "local"]
    for result in results:
        if alone and result is not alone[0] and not result.experiment.method.pooled:
            screen.print(joining(alone[0], result))
    for folder in [kept_in] if kept_in else [result.run_dir for result in results]:
        screen.print(f"kept in {folder}", style="dim", soft_wrap=True)


def said(phase: str) -> None:
    """What has been done, on stderr."""
    if not is_quiet():
        print(phase, file=sys.stderr, flush=True)


@contextmanager
def progress_bar() -> Iterator[Any]:
    """A bar on stderr with a note at its end; the caller starts it."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    bar = RichProgress(*columns, console=Console(stderr=True), disable=is_quiet())
    try:
        yield bar
    finally:
        if bar.live.is_started:  # else it would print an empty line
            bar.stop()


@contextmanager
def progress(chosen: Experiment) -> Iterator[Progress]:
    """A bar over rounds, with the current validation score; shown once a round is done."""
    with progress_bar() as bar:
        task = bar.add_task(chosen.method.registered_name, total=chosen.run.rounds, note="")

        def advance(r: int, val: float) -> None:
            bar.start()
            shown = f"{val:.3f}" if chosen.run.metric == "loss" else f"{100 * val:.1f} %"
            note = {} if val != val else {"note": f"validation {shown}"}
            bar.update(task, completed=r, **note)

        yield advance
