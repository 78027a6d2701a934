"""The command that looks at two tables before anything is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from atoll.cli.options import AsJson


def check(
    nodes: Annotated[Path, typer.Argument(help="One row per node: CSV or Parquet.")],
    edges: Annotated[Path, typer.Argument(help="One row per edge: CSV or Parquet.")],
    owner: Annotated[str, typer.Option(help="The column that names each node's owner.")] = "",
    label: Annotated[str, typer.Option(help="The column with the class to be learnt.")] = "",
    id: Annotated[str, typer.Option(help="The column with the nodes' ids.")] = "",
    weight: Annotated[str, typer.Option(help="The column that weighs the edges.")] = "",
    directed: Annotated[bool, typer.Option("--directed", help="Edges have directions.")] = False,
    drop_unknown: Annotated[
        bool, typer.Option("--drop-unknown", help="Leave out edges that end at no listed node.")
    ] = False,
    leave_out: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column that is no feature.")
    ] = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column that is categories whatever it holds."),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="The config to write, for: atoll run atoll.toml.")
    ] = Path("atoll.toml"),
    as_json: AsJson = False,
) -> None:
    """Look at two tables: every column, every problem at once; write the config to run them with.

    What is not said is guessed: separators, decimal marks, ids, ends, label, owner and weight. The
    exit code is 2 if the tables can't be used as they are; then nothing is written.
    """
    from atoll.data.check_tables import check_tables
    from atoll.report.check import (
        check_tables_table,
        problem_lines,
        refuse_others_file,
        write_config,
    )
    from atoll.report.console import console

    refuse_others_file(out)
    found = check_tables(
        nodes,
        edges,
        id=id,
        label=label,
        owner=owner,
        weight=weight,
        directed=directed,
        drop_unknown=drop_unknown,
        leave_out=leave_out or (),
        categorical=categorical or (),
    )
    if found.usable:
        write_config(found, out)
    if as_json:
        print(json.dumps(found.summary() | {"out": str(out) if found.usable else None}))
    else:
        console().print(check_tables_table(found))
        for line in problem_lines(found):
            print(line)
        if found.usable:
            print(f"wrote {out}; next: atoll run {out}")
    if not found.usable:
        raise typer.Exit(2)
