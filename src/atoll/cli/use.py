"""Commands that use what a run has learned: predict, embed, export."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class Target(Enum):
    torch = "torch"
    onnx = "onnx"


RunDir = Annotated[Path, typer.Argument(help="The directory of a finished run.")]
OfClient = Annotated[
    str | None, typer.Option("--client", help="Only this client, by name or number.")
]


def predict(
    run_dir: RunDir,
    out: Annotated[Path, typer.Option(help="The table to write: .csv or .parquet.")],
    client: OfClient = None,
    nodes: Annotated[
        Path | None,
        typer.Option(help="A table of new nodes; without it, the run's own nodes are scored."),
    ] = None,
    edges: Annotated[
        Path | None, typer.Option(help="A table of edges among new nodes and to known ones.")
    ] = None,
) -> None:
    """Write each node's likeliest class and a probability per class.

    The model is that of the best round, the one whose scores were reported. New nodes go to the
    client that their owner's column names, or to --client.
    """
    from atoll.inference.predict import predict as predicted
    from atoll.inference.tables import check_table_name, write_table

    check_table_name(out)
    table = predicted(run_dir, client, nodes, edges)
    write_table(table, out)
    print(f"wrote the predictions of {table.height} nodes to {out}")


def embed(
    run_dir: RunDir,
    out: Annotated[Path, typer.Option(help="The table to write: .parquet or .csv.")],
    client: OfClient = None,
) -> None:
    """Write each node's embedding: the output of the model's layer before the last."""
    from atoll.inference.embed import embed as embedded
    from atoll.inference.tables import check_table_name, write_table

    check_table_name(out)
    table = embedded(run_dir, client)
    write_table(table, out)
    print(f"wrote the embeddings of {table.height} nodes, {table.width - 2} numbers each, to {out}")


def export(
    run_dir: RunDir,
    out: Annotated[Path, typer.Option(help="A new folder.")],
    client: OfClient = None,
    to: Annotated[Target, typer.Option(help="A torch_geometric module; onnx adds model.onnx.")] = (
        Target.torch
    ),
) -> None:
    """Write a model as a plain torch_geometric module, with its weights and a card.

    Without --client: one module if all clients have the same model, else one folder per client.
    """
    from atoll.inference.export import export as exported

    for folder in exported(run_dir, out, client, to.value):
        print(f"wrote {', '.join(sorted(path.name for path in folder.iterdir()))} to {folder}")
