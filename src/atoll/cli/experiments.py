"""Commands that train: run, compare, resume, reproduce."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from atoll.cli.options import ALL_OPTIONS, AsJson, experiment, with_options

if TYPE_CHECKING:
    from atoll.experiment.config import Experiment
    from atoll.experiment.runner import Progress

Choices = dict[str, Any]


@with_options(ALL_OPTIONS)
def run(
    choices: Choices,
    out: Annotated[
        Path | None, typer.Option(help="Run directory (default: a new one in runs/).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run one experiment and keep it in a run directory.

    Accuracies in JSON are fractions. The test accuracy is that of the round with the best mean
    validation accuracy. Ctrl-C stops after the current round; continue with: atoll resume.
    """
    from atoll.experiment.runner import run_experiment

    chosen = experiment(choices)
    with _progress(chosen) as advance:
        result = run_experiment(chosen, out, advance)
    _show([result], as_json)


@with_options(tuple(name for name in ALL_OPTIONS if name != "method"))
def compare(
    choices: Choices,
    methods: Annotated[str | None, typer.Option(help="Names separated by commas.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run several methods on the same parties: does joining pay?

    By default: training alone, FedAvg, the default method, and the oracle that sees everything.
    """
    from atoll.experiment.config import DEFAULT_METHOD
    from atoll.experiment.runner import run_experiment

    names = methods.split(",") if methods else ["local", "fed-avg", DEFAULT_METHOD, "centralized"]
    distinct = dict.fromkeys(name.strip() for name in names)
    results = []
    for chosen in [experiment(choices | {"method": name}) for name in distinct]:
        with _progress(chosen) as advance:
            results.append(run_experiment(chosen, None, advance))
    _show(results, as_json)


def resume(
    run_dir: Annotated[Path, typer.Argument(help="The directory of an interrupted run.")],
    as_json: AsJson = False,
) -> None:
    """Continue an interrupted run to the result it would have had."""
    from atoll.deploy.plan import is_deployed
    from atoll.experiment.runner import read_experiment
    from atoll.experiment.runner import resume as resume_run

    with _progress(read_experiment(run_dir)) as advance:
        if is_deployed(run_dir):
            from atoll.deploy.up import resume_up

            result = resume_up(run_dir, advance)
        else:
            result = resume_run(run_dir, advance)
    _show([result], as_json)


def reproduce(
    table: Annotated[
        str | None,
        typer.Argument(help="PAPER/TABLE, e.g. fed-pub/table-2; without it, what there is."),
    ] = None,
    row: Annotated[list[str] | None, typer.Option(help="Only these rows.")] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="Only these columns: methods or statistics.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds.")] = None,
    out: Annotated[Path, typer.Option(help="Where results are kept.")] = Path("results"),
    jobs: Annotated[int, typer.Option(min=1, help="Cells run at the same time.")] = 1,
    missing: Annotated[
        bool, typer.Option(help="Leave out cells already kept with these settings.")
    ] = False,
    runs: Annotated[
        Path | None,
        typer.Option(
            help="A folder for single runs: an interrupted table goes on, tables share runs. "
            "Delete it when code changes."
        ),
    ] = None,
) -> None:
    """Run a paper's table or figure and set our numbers beside the paper's.

    Keeps our numbers with the command and seconds, writes the table as Markdown (and draws it, if
    the paper does), and exits with 1 if a cell is outside its tolerance. Without a table it lists
    all recipes with what is kept of them, and writes their pages and an index anew.
    """
    from atoll.report.pages import write_page, write_pages
    from atoll.report.reproduction import overview_table, show
    from atoll.report.tables import console
    from atoll.reproduction.recipe import load_recipe
    from atoll.reproduction.reproduce import not_kept, run_cells
    from atoll.reproduction.results import load_cells

    if table is None:
        console().print(overview_table(write_pages(out)))
        return
    recipe = load_recipe(table)
    targets, count = recipe.chosen(row or [], column or []), seeds or recipe.header.seeds
    left = not_kept(recipe, targets, count, out) if missing else targets
    with _bar() as bar:
        done = len(targets) - len(left)
        task = bar.add_task(recipe.name, total=len(targets), completed=done, note="")
        bar.start()
        for cell in run_cells(recipe, left, count, out, jobs, runs):
            bar.update(task, advance=1, note=f"{cell.row} {cell.column}")
            write_page(out, recipe)
    kept = load_cells(out, recipe)
    cells = [kept[target.row, target.column] for target in targets]
    console().print(show(recipe, cells))
    if any(cell.outside for cell in cells):
        raise typer.Exit(1)


def _show(results: list[Any], as_json: bool) -> None:
    from atoll.report.tables import comparison, console, joining

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
    for result in results:
        screen.print(f"kept in {result.run_dir}", style="dim", soft_wrap=True)


@contextmanager
def _bar() -> Iterator[Any]:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    bar = RichProgress(*columns, console=Console(stderr=True))
    try:
        yield bar
    finally:
        bar.stop()


@contextmanager
def _progress(chosen: Experiment) -> Iterator[Progress]:
    """A bar over rounds, with the current validation accuracy; shown once a round is done."""
    with _bar() as bar:
        task = bar.add_task(chosen.method.registered_name, total=chosen.run.rounds, note="")

        def advance(r: int, val: float) -> None:
            bar.start()
            note = {} if val != val else {"note": f"validation {100 * val:.1f} %"}
            bar.update(task, completed=r, **note)

        yield advance
