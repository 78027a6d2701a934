"""The command study, and what it shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from atoll.cli.comparisons import progress_over_runs
from atoll.cli.options import AsJson, EngineName, Workers

if TYPE_CHECKING:
    from atoll.tabulation.outcome import Study


def study(
    form: Annotated[Path, typer.Argument(help="A TOML file; docs/studies.md has its form.")],
    seeds: Annotated[
        int | None, typer.Option(help="How many seeds, in place of the file's.")
    ] = None,
    jobs: Annotated[
        int, typer.Option(help="Runs at the same time, each in a process of its own.")
    ] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder (default: runs/study-NAME, after the file); goes on with what it holds."
        ),
    ] = None,
    engine: EngineName = "process",
    workers: Workers = 0,
    as_json: AsJson = False,
) -> None:
    """Run a table of your own: rows, columns and seeds, with tests and ranks.

    Writes Markdown, CSV, LaTeX and plots into the study's folder. After Ctrl-C or a kill the same
    command goes on to the same results.
    """
    from atoll.federation.cluster import engine_of
    from atoll.tabulation.study import run_study

    where = engine_of(engine, workers)
    with progress_over_runs("study") as watch:
        found = run_study(form, seeds, jobs, out, watch, where)
    show_study(found, as_json)


def show_study(found: Study, as_json: bool) -> None:
    """The table, its tests and ranks; all files are written anew."""
    from atoll.report.console import console
    from atoll.report.study import differences_table, said_of_ranks, study_table, write_study

    write_study(found)
    if as_json:
        print(json.dumps(found.summary()))
        return
    screen = console()
    screen.print(study_table(found))
    if found.pairs:
        screen.print(differences_table(found))
    for line in (*said_of_ranks(found), *found.cautions()):
        screen.print(line, soft_wrap=True, markup=False)
    screen.print(f"kept in {found.out}", style="dim", soft_wrap=True)
