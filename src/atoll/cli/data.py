"""Commands about what there is: list, describe, split, fetch."""

from __future__ import annotations

import json
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from atoll.cli.options import DATA_OPTIONS, AsJson, experiment, with_options

_REGISTRIES = {
    "methods": ("atoll.methods.base", "methods"),
    "models": ("atoll.models.base", "models"),
    "tasks": ("atoll.tasks.base", "tasks"),
    "datasets": ("atoll.data.base", "datasets"),
    "partitions": ("atoll.partition.base", "partitions"),
    "optimizers": ("atoll.optimizers.base", "optimizers"),
}
Kind = Enum("Kind", {name: name for name in _REGISTRIES})  # type: ignore[misc]
Choices = dict[str, Any]


def list_(kind: Annotated[Kind, typer.Argument(help="What to list.")]) -> None:
    """What there is, with one line each."""
    module, name = _REGISTRIES[kind.value]
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for entry, summary in getattr(import_module(module), name).summaries().items():
        table.add_row(f"[bold]{entry}[/bold]", summary)
    Console().print(table)


@with_options(DATA_OPTIONS)
def describe(
    choices: Choices,
    picture: Annotated[
        Path | None, typer.Option(help="Also draw it: a file ending in .png, .svg or .pdf.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a partition does to a graph: sizes, labels, shared nodes, missing edges."""
    from atoll.experiment.runner import load_whole, parties_of
    from atoll.report.description import Description
    from atoll.report.pictures import draw
    from atoll.report.tables import console, describe_table

    chosen = experiment(choices)
    whole = load_whole(chosen)
    description = Description(whole, parties_of(chosen, whole))
    if as_json:
        print(json.dumps(description.summary()))
    else:
        console().print(describe_table(description))
    if picture is not None:
        title = f"{chosen.data.registered_name}, {chosen.partition.registered_name}"
        draw(description, picture, f"{title}, {len(description.parties)} clients")


@with_options(DATA_OPTIONS)
def split(
    choices: Choices,
    out: Annotated[Path, typer.Option(help="A new folder; gets one folder a party.")] = Path(
        "sites"
    ),
) -> None:
    """Write each party's graph into a folder of its own, the input of a real deployment."""
    from atoll.data.parties import write_parties
    from atoll.experiment.runner import load_parties

    parties = load_parties(experiment(choices)).graphs
    write_parties(parties, out)
    print(f"wrote {len(parties)} parties to {out}")


def fetch(
    name: Annotated[
        str | None, typer.Argument(help="A dataset; without it, what is there and what is missing.")
    ] = None,
    source: Annotated[
        str, typer.Option(help="Where Cora comes from: auto, planetoid or pypi.")
    ] = "auto",
) -> None:
    """Get a dataset ahead of time, so that later runs need no network."""
    from atoll.data.fetch import fetch as fetch_dataset
    from atoll.data.fetch import fetchable

    if name is None:
        for dataset in fetchable():
            print(f"{dataset.name}: {'missing' if dataset.missing else 'there'}")
        return
    print(f"{name} is ready in {fetch_dataset(name, source)}")
