"""Commands that train: run, compare, resume, reproduce."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atoll.cli.comparisons import chosen_sites, progress_over_runs, show_comparison
from atoll.cli.options import (
    ALL_OPTIONS,
    AsJson,
    EngineName,
    Workers,
    described_choices,
    experiment,
    of_papers,
    out_folder,
    with_options,
)
from atoll.cli.screen import progress, progress_bar, said, show_results
from atoll.cli.studies import show_study
from atoll.cli.tuning import show_tuning
from atoll.errors import AtollError

if TYPE_CHECKING:
    from atoll.reproduction.reproduce import Failed

Choices = dict[str, Any]
Log = Annotated[
    list[str] | None,
    typer.Option(help="tensorboard, mlflow or wandb: log scores there too; may be repeated."),
]


@with_options(ALL_OPTIONS)
def run(
    choices: Choices,
    out: Annotated[
        Path | None, typer.Option(help="Run directory (default: a new one in runs/).")
    ] = None,
    log: Log = None,
    engine: EngineName = "process",
    workers: Workers = 0,
    as_json: AsJson = False,
) -> None:
    """Run one experiment and keep it in a run directory.

    Scores in JSON are fractions. The test score is that of the round with the best mean validation
    score: accuracy, unless --metric says otherwise or a class is rare (then PR-AUC).
    Ctrl-C stops after the current round; continue with: atoll resume.
    """
    from atoll.experiment.runner import run_experiment
    from atoll.federation.cluster import engine_of
    from atoll.loggers.base import callbacks_of

    where = engine_of(engine, workers)
    chosen, callbacks = experiment(choices), callbacks_of(log or [])
    with progress(chosen) as advance:
        result = run_experiment(chosen, out, advance, callbacks=callbacks, engine=where)
    show_results([result], as_json)


Jobs = Annotated[int, typer.Option(help="Runs at the same time, each in a process of its own.")]
Sites = Annotated[
    str, typer.Option(help="best: verdicts for the best joined method; all: for each of them.")
]


@with_options(tuple(name for name in ALL_OPTIONS if name != "method"))
def compare(
    choices: Choices,
    methods: Annotated[str | None, typer.Option(help="Names separated by commas.")] = None,
    seeds: Annotated[
        int, typer.Option(help="How many seeds, from --seed on; 5 for verdicts per site.")
    ] = 1,
    jobs: Jobs = 1,
    out: Annotated[
        Path | None,
        typer.Option(help="Directory (default: a new one in runs/); goes on with what it holds."),
    ] = None,
    sites: Sites = "best",
    engine: EngineName = "process",
    workers: Workers = 0,
    as_json: AsJson = False,
) -> None:
    """Run several methods on the same clients: is joining worth it, and for whom?

    By default: training alone, FedAvg, the default method, and the oracle that sees everything.
    With several seeds: mean and std, the paired difference to training alone with a 95 % interval,
    and a verdict for every site by its name. Who holds what stays the same with every seed.
    """
    from atoll.comparison.compare import DEFAULT_METHODS, compare_methods
    from atoll.federation.cluster import engine_of

    where = engine_of(engine, workers)
    which, names = chosen_sites(sites), methods.split(",") if methods else DEFAULT_METHODS
    described = described_choices(choices) | of_papers(choices, [name.strip() for name in names])
    with progress_over_runs() as watch:
        found = compare_methods(names, described, seeds, jobs, out, watch, where)
    show_comparison(found, which, as_json)


def resume(
    run_dir: Annotated[
        Path,
        typer.Argument(help="The directory of what was interrupted."),
    ],
    jobs: Jobs = 1,
    sites: Sites = "best",
    log: Log = None,
    engine: EngineName = "process",
    workers: Workers = 0,
    as_json: AsJson = False,
) -> None:
    """Continue what was interrupted (run, comparison, study, search) to its result.

    --jobs is for comparisons and studies, --sites for comparisons, --log for a simulated run.
    """
    from atoll.comparison.plan import is_comparison
    from atoll.deploy.plan import is_deployed
    from atoll.experiment.runner import read_experiment
    from atoll.experiment.runner import resume as resume_run
    from atoll.federation.cluster import engine_of
    from atoll.loggers.base import callbacks_of
    from atoll.tabulation.plan import is_study
    from atoll.tuning.tune import is_search

    where = engine_of(engine, workers)
    if is_search(run_dir):
        from atoll.tuning.tune import resume_search

        with progress_over_runs("tune") as watch:
            tuned = resume_search(run_dir, watch)
        show_tuning(tuned, as_json)
        return
    if is_study(run_dir):
        from atoll.tabulation.study import resume_study

        with progress_over_runs("study") as watch:
            table = resume_study(run_dir, jobs, watch, where)
        show_study(table, as_json)
        return
    if is_comparison(run_dir):
        from atoll.comparison.compare import resume_comparison

        which = chosen_sites(sites)
        with progress_over_runs() as watch:
            found = resume_comparison(run_dir, jobs, watch, where)
        show_comparison(found, which, as_json)
        return
    with progress(read_experiment(run_dir)) as advance:
        if is_deployed(run_dir):
            from atoll.deploy.up import resume_up

            result = resume_up(run_dir, advance, said)
        else:
            result = resume_run(run_dir, advance, callbacks_of(log or []), where)
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
    out: Annotated[Path, typer.Option(help="Where results are kept.", callback=out_folder)] = Path(
        "results"
    ),
    jobs: Annotated[int, typer.Option(min=1, help="Cells run at the same time.")] = 1,
    missing: Annotated[
        bool, typer.Option(help="Run only cells that are not kept with these settings.")
    ] = False,
    runs: Annotated[
        Path | None,
        typer.Option(
            help="A folder that keeps single runs, so that an interrupted table can continue and "
            "tables share runs. Delete it when code changes.",
            callback=out_folder,
        ),
    ] = None,
    verify: Annotated[
        int,
        typer.Option(min=0, help="Run so many kept cells again, drawn by chance, and compare."),
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Which cells --verify draws.")] = 0,
    engine: EngineName = "process",
    workers: Workers = 0,
    page: Annotated[
        Path | None, typer.Option(help="A second file for the table's page, e.g. docs/x.md.")
    ] = None,
) -> None:
    """Run a paper's table or figure and compare our numbers with the paper's.

    Keeps our numbers with the command and seconds, writes the table as Markdown (and draws it, if
    the paper does), and exits with 1 if a cell is outside its tolerance. Without a table it lists
    all recipes with what is kept of them, and writes their pages and an index anew. With --verify N
    it runs N kept cells again, changes nothing, and exits with 1 if one of them differs.
    """
    if seeds is not None and seeds < 1:
        raise AtollError(f"--seeds is {seeds}; a table needs at least 1.")
    from atoll.federation.cluster import engine_of
    from atoll.report.console import console
    from atoll.report.pages import write_page, write_pages
    from atoll.report.reproduction import overview_table, show
    from atoll.reproduction.recipe import load_recipe
    from atoll.reproduction.reproduce import Failed, not_kept, run_cells
    from atoll.reproduction.results import load_cells

    where = engine_of(engine, workers)
    if verify:
        raise typer.Exit(0 if _verified(out, verify, [table] if table else [], seed) else 1)
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
        failed: list[Failed] = []
        for cell in run_cells(recipe, left, count, out, jobs, runs, where):
            bar.update(task, advance=1, note=f"{cell.row} {cell.column}")
            if isinstance(cell, Failed):
                failed.append(cell)
                continue
            write_page(out, recipe, page)
    write_page(out, recipe, page)
    kept = load_cells(out, recipe)
    places = [(target.row, target.column) for target in targets]
    cells = [kept[place] for place in places if place in kept]
    if cells:
        console().print(show(recipe, cells))
    if failed:
        raise AtollError(_said_of(failed))
    if any(cell.outside for cell in cells):
        raise typer.Exit(1)


def _verified(out: Path, count: int, tables: list[str], seed: int) -> bool:
    """Whether some kept cells, run again, are the same."""
    from atoll.report.console import console
    from atoll.report.reproduction import verification_table
    from atoll.reproduction.verify import drawn, verified

    cells, checks = drawn(out, count, tables, seed), []
    with progress_bar() as bar:
        task = bar.add_task("verify", total=len(cells), note="")
        bar.start()
        for check in verified(cells):
            checks.append(check)
            bar.update(task, advance=1, note=f"{check.kept.row} {check.kept.column}")
    console().print(verification_table(checks))
    return all(check.same for check in checks)


def _said_of(failed: Sequence[Failed]) -> str:
    """What kept cells from being run: alone, or the first of several."""
    first = failed[0]
    said = f"{first.row} {first.column}: {first.why}"
    return said if len(failed) == 1 else f"{len(failed)} cells could not be run; the first, {said}"
