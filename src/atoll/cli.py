"""The command line: results to stdout, progress and errors to stderr."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from atoll.errors import AtollError

if TYPE_CHECKING:
    from atoll.experiment.config import Experiment
    from atoll.experiment.runner import Progress

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Federated learning on graphs: simulate, compare and reproduce methods.\n\n"
    "Try [bold]atoll run[/bold] for one experiment on built-in data, "
    "[bold]atoll compare[/bold] to see whether joining pays, and "
    "[bold]atoll list methods[/bold] for what there is.",
)

Recipe = Annotated[
    Path | None, typer.Argument(help="A TOML file with the settings; flags win over it.")
]
MethodName = Annotated[str | None, typer.Option("--method", help="See: atoll list methods.")]
DataName = Annotated[str | None, typer.Option("--data", help="See: atoll list datasets.")]
PartitionName = Annotated[
    str | None,
    typer.Option("--partition", help="How the graph is cut. See: atoll list partitions."),
]
ModelName = Annotated[str | None, typer.Option("--model", help="See: atoll list models.")]
Clients = Annotated[int | None, typer.Option("--clients", help="Number of parties.")]
Rounds = Annotated[int | None, typer.Option("--rounds", help="Number of rounds.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Seeds split, partition and training.")]
Chunk = Annotated[
    int | None,
    typer.Option("--chunk", help="Clients trained at once: 0 all, 1 one by one, m in chunks."),
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Any field, e.g. optimizer.lr=0.005."),
]
Out = Annotated[
    Path | None, typer.Option("--out", help="Run directory (default: a new one in runs/).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]

_CHOICES = {
    "methods": ("atoll.methods.base", "methods"),
    "models": ("atoll.models.base", "models"),
    "datasets": ("atoll.data.base", "datasets"),
    "partitions": ("atoll.partition.base", "partitions"),
    "optimizers": ("atoll.ops.optimize", "optimizers"),
}
Kind = Enum("Kind", {name: name for name in _CHOICES})  # type: ignore[misc]


@app.command()
def run(
    recipe: Recipe = None,
    method: MethodName = None,
    data: DataName = None,
    partition: PartitionName = None,
    model: ModelName = None,
    clients: Clients = None,
    rounds: Rounds = None,
    seed: Seed = None,
    chunk: Chunk = None,
    sets: Sets = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Run one experiment and keep it in a run directory.

    Accuracies in JSON are fractions. The test accuracy is that of the round with the best mean
    validation accuracy. Ctrl-C stops after the current round; continue with: atoll resume.
    """
    from atoll.experiment.runner import run_experiment

    experiment = _experiment(
        recipe, method, data, partition, model, clients, rounds, seed, chunk, sets
    )
    with _progress(experiment) as advance:
        result = run_experiment(experiment, out, advance)
    _show([result], as_json)


@app.command()
def compare(
    recipe: Recipe = None,
    methods: Annotated[
        str | None, typer.Option("--methods", help="Names separated by commas.")
    ] = None,
    data: DataName = None,
    partition: PartitionName = None,
    model: ModelName = None,
    clients: Clients = None,
    rounds: Rounds = None,
    seed: Seed = None,
    chunk: Chunk = None,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Run several methods on the same parties: does joining pay?

    By default: training alone, FedAvg, the default method, and the oracle that sees everything.
    """
    from atoll.experiment.config import DEFAULT_METHOD
    from atoll.experiment.runner import run_experiment

    names = methods.split(",") if methods else ["local", "fed-avg", DEFAULT_METHOD, "centralized"]
    experiments = [
        _experiment(recipe, name, data, partition, model, clients, rounds, seed, chunk, sets)
        for name in dict.fromkeys(name.strip() for name in names)
    ]
    results = []
    for experiment in experiments:
        with _progress(experiment) as advance:
            results.append(run_experiment(experiment, None, advance))
    _show(results, as_json)


@app.command()
def resume(
    run_dir: Annotated[Path, typer.Argument(help="The directory of an interrupted run.")],
    as_json: AsJson = False,
) -> None:
    """Continue an interrupted run to the result it would have had."""
    from atoll.experiment.runner import read_experiment
    from atoll.experiment.runner import resume as resume_run

    with _progress(read_experiment(run_dir)) as advance:
        result = resume_run(run_dir, advance)
    _show([result], as_json)


@app.command()
def reproduce(
    table: Annotated[str, typer.Argument(help="PAPER/TABLE, e.g. fed-pub/table-2.")],
    row: Annotated[list[str] | None, typer.Option("--row", help="Only these rows.")] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", help="How many seeds.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Where results are kept.")] = Path("results"),
) -> None:
    """Run a paper's table and set our numbers beside the paper's.

    Keeps our numbers with the command and seconds, writes the table as Markdown, and exits with 1
    if a cell is outside its tolerance.
    """
    from atoll.experiment.recipe import load_recipe
    from atoll.experiment.reproduce import reproduce_table
    from atoll.report.reproduction import show
    from atoll.report.tables import console

    recipe = load_recipe(table)
    with _bar() as bar:
        cells = reproduce_table(recipe, row or [], seeds, out, bar)
    console().print(show(recipe, cells))
    if any(cell.outside for cell in cells):
        raise typer.Exit(1)


@app.command("list")
def list_(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
) -> None:
    """What there is, with one line each."""
    from importlib import import_module

    module, name = _CHOICES[kind.value]
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for entry, summary in getattr(import_module(module), name).summaries().items():
        table.add_row(f"[bold]{entry}[/bold]", summary)
    Console().print(table)


def _experiment(
    recipe: Path | None,
    method: str | None,
    data: str | None,
    partition: str | None,
    model: str | None,
    clients: int | None,
    rounds: int | None,
    seed: int | None,
    chunk: int | None,
    sets: list[str] | None,
) -> Experiment:
    from atoll.experiment.config import merged, read_table, resolve, setting

    flags: dict[str, dict[str, Any]] = {
        "method": {"name": method},
        "data": {"name": data},
        "partition": {"name": partition, "clients": clients},
        "model": {"name": model},
        "run": {"rounds": rounds, "seed": seed, "chunk": chunk},
    }
    given = {s: {k: v for k, v in pairs.items() if v is not None} for s, pairs in flags.items()}
    chosen = [{section: {key: value}} for section, key, value in map(setting, sets or [])]
    return resolve(merged(read_table(recipe) if recipe else {}, given, *chosen))


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
def _progress(experiment: Experiment) -> Iterator[Progress]:
    """A bar over rounds, with the current validation accuracy; shown once a round is done."""
    with _bar() as bar:
        task = bar.add_task(experiment.method.registered_name, total=experiment.run.rounds, note="")

        def advance(r: int, val: float) -> None:
            bar.start()
            bar.update(task, completed=r, note=f"validation {100 * val:.1f} %")

        yield advance


def main() -> None:
    """Entry point: errors a user can mend are one sentence and exit code 2."""
    from atoll.errors import Interrupted

    logging.basicConfig(stream=sys.stderr, format="atoll: %(message)s", level=logging.WARNING)
    try:
        app()
    except Interrupted as stop:
        print(f"atoll: {stop}", file=sys.stderr)
        sys.exit(130)
    except AtollError as problem:
        print(f"atoll: {problem}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("atoll: stopped at once; the last checkpoint can be resumed.", file=sys.stderr)
        sys.exit(130)
