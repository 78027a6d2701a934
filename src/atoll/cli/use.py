"""Commands that use what a run has learned: predict, embed, export."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from atoll.inference.kept import Kept


class Target(Enum):
    torch = "torch"
    onnx = "onnx"


RunDir = Annotated[Path | None, typer.Argument(help="The directory of a finished run.")]
State = Annotated[
    Path | None,
    typer.Option(help="A site's state instead (atoll client --state): its own model of a run."),
]
RunOfState = Annotated[
    str | None, typer.Option("--run", help="Which run of the site's state, if there are several.")
]
DataOfState = Annotated[
    Path | None, typer.Option("--data", help="The site's folder of data, if it has been moved.")
]
OfClient = Annotated[
    str | None, typer.Option("--client", help="Only this client, by name or number.")
]


def predict(
    run_dir: RunDir = None,
    *,
    out: Annotated[Path, typer.Option(help="The table to write: .csv or .parquet.")],
    client: OfClient = None,
    nodes: Annotated[
        Path | None,
        typer.Option(help="A table of new nodes; without it, the run's own nodes are scored."),
    ] = None,
    edges: Annotated[
        Path | None, typer.Option(help="A table of edges among new nodes and to known ones.")
    ] = None,
    state: State = None,
    run: RunOfState = None,
    data: DataOfState = None,
) -> None:
    """Write each node's likeliest class and a probability per class.

    The model is that of the best round, the one whose scores were reported. New nodes go to the
    client that their owner's column names, or to --client.
    """
    from atoll.inference.predict import predict as predicted
    from atoll.inference.tables import check_table_name, write_table

    check_table_name(out)
    table = predicted(_opened(run_dir, state, run, data), client, nodes, edges)
    write_table(table, out)
    print(f"wrote the predictions of {counted(table.height)} to {out}")


def embed(
    run_dir: RunDir = None,
    *,
    out: Annotated[Path, typer.Option(help="The table to write: .parquet or .csv.")],
    client: OfClient = None,
    cluster: Annotated[
        bool,
        typer.Option(
            "--cluster",
            help="Add clusters by k-means, and say how they fit the classes.",
        ),
    ] = False,
    state: State = None,
    run: RunOfState = None,
    data: DataOfState = None,
) -> None:
    """Write each node's embedding: the output of the model's layer before the last.

    With --cluster, normalised mutual information (NMI) and adjusted Rand index (ARI) of k-means
    clusters and classes, over the nodes of each client that its model was not trained on.
    """
    from atoll.inference.embed import agreement_lines, embedded
    from atoll.inference.tables import check_table_name, write_table

    check_table_name(out)
    table, agreements = embedded(_opened(run_dir, state, run, data), client, cluster)
    write_table(table, out)
    width = table.width - 2 - cluster
    print(f"wrote the embeddings of {counted(table.height)}, {width} numbers each, to {out}")
    for line in agreement_lines(agreements):
        print(line)


def export(
    run_dir: RunDir = None,
    *,
    out: Annotated[Path, typer.Option(help="A new folder.")],
    client: OfClient = None,
    to: Annotated[Target, typer.Option(help="A torch_geometric module; onnx adds model.onnx.")] = (
        Target.torch
    ),
    state: State = None,
    run: RunOfState = None,
    data: DataOfState = None,
) -> None:
    """Write a model as a plain torch_geometric module, with its weights and a card.

    Without --client: one module if all clients have the same model, else one folder per client.
    """
    from atoll.inference.export import export as exported

    for folder in exported(_opened(run_dir, state, run, data), out, client, to.value):
        print(f"wrote {', '.join(sorted(path.name for path in folder.iterdir()))} to {folder}")


def counted(nodes: int) -> str:
    return "1 node" if nodes == 1 else f"{nodes} nodes"


def _opened(run_dir: Path | None, state: Path | None, run: str | None, data: Path | None) -> Kept:
    """The models that are meant: those of a run directory, or a site's own."""
    from atoll.errors import AtollError
    from atoll.inference.at_site import open_state
    from atoll.inference.kept import open_run

    if (run_dir is None) == (state is None):
        raise AtollError("name a run's directory, or a site's state with --state, and not both.")
    if state is not None:
        return open_state(state, run, data)
    if run is not None or data is not None:
        raise AtollError("--run and --data belong to a site's state; name it with --state.")
    assert run_dir is not None
    return open_run(run_dir)
