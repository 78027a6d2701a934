"""Commands that train: run, compare, resume, reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from atoll.cli.options import ALL_OPTIONS, AsJson, experiment, with_options
from atoll.cli.screen import progress, progress_bar, show_results

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

    Scores in JSON are fractions. The test score is that of the round with the best mean validation
    score: accuracy, unless --metric says otherwise or a class is rare (then PR-AUC).
    Ctrl-C stops after the current round; continue with: atoll resume.
    """
    from atoll.experiment.runner import run_experiment

    chosen = experiment(choices)
    with progress(chosen) as advance:
        result = run_experiment(chosen, out, advance)
    show_results([result], as_json)


@with_options(tuple(name for name in ALL_OPTIONS if name != "method"))
def compare(
    choices: Choices,
    methods: Annotated[str | None, typer.Option(help="Names separated by commas.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run several methods on the same clients: does joining pay?

    By default: training alone, FedAvg, the default method, and the oracle that sees everything.
    """
    from atoll.experiment.config import DEFAULT_METHOD
    from atoll.experiment.runner import run_experiment

    names = methods.split(",") if methods else ["local", "fed-avg", DEFAULT_METHOD, "centralized"]
    distinct = dict.fromkeys(name.strip() for name in names)
    results = []
    for chosen in [experiment(choices | {"method": name}) for name in distinct]:
        with progress(chosen) as advance:
            results.append(run_experiment(chosen, None, advance))
    show_results(results, as_json)


def resume(
    run_dir: Annotated[Path, typer.Argument(help="The directory of an interrupted run.")],
    as_json: AsJson = False,
) -> None:
    """Continue an interrupted run to the result it would have had."""
    from atoll.deploy.plan import is_deployed
    from atoll.experiment.runner import read_experiment
    from atoll.experiment.runner import resume as resume_run

    with progress(read_experiment(run_dir)) as advance:
        if is_deployed(run_dir):
            from atoll.deploy.up import resume_up

            result = resume_up(run_dir, advance)
        else:
            result = resume_run(run_dir, advance)
    show_results([result], as_json)


def reproduce(
    table: Annotated[
        str | None,
        typer.Argument(help="PAPER/TABLE, e.g. fed-pub/table-2; without it, lists all."),
    ] = None,
    row: Annotated[list[str] | None, typer.Option(help="Only these rows.")] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="Only these columns: methods or statistics.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds.")] = None,
    out: Annotated[Path, typer.Option(help="Where results are kept.")] = Path("results"),
    jobs: Annotated[int, typer.Option(min=1, help="Cells run at the same time.")] = 1,
    missing: Annotated[
        bool, typer.Option(help="Run only cells that are not kept with these settings.")
    ] = False,
    runs: Annotated[
        Path | None,
        typer.Option(
            help="A folder that keeps single runs, so that an interrupted table can continue and "
            "tables share runs. Delete it when code changes."
        ),
    ] = None,
) -> None:
    """Run a paper's table or figure and compare our numbers with the paper's.

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
    with progress_bar() as bar:
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
