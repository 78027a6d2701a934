"""What a model makes of each node before it is classified, as a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars

from atoll.experiment.embeddings import classes_as_cut, embeddings
from atoll.inference.kept import Kept, open_run
from atoll.tasks.clustering import clustered


def embed(
    run_dir: str | Path | Kept, client: str | None = None, cluster: bool = False
) -> polars.DataFrame:
    """One row per node: ``id``, ``client`` and the embedding's numbers ``e0``, ``e1``, ...

    The embedding is the output of the layer before the last one, by the model of the best round
    of the client that holds the node (models without such a layer give their class scores). Where
    small graphs are classified there is one row per graph, under the id of its first node. With
    ``cluster`` there is the node's ``cluster`` as well.
    """
    return embedded(run_dir, client, cluster)[0]


def embedded(
    run_dir: str | Path | Kept, client: str | None = None, cluster: bool = False
) -> tuple[polars.DataFrame, polars.DataFrame]:
    """The embeddings, and one row per client on how its clusters agree with its classes:
    ``client``, ``clusters``, ``scored``, ``nmi`` and ``ari``; without rows unless asked for.

    k-means sees all of a client's nodes and is scored on those that the model was not trained on.
    """
    kept = open_run(run_dir)
    if client is not None:
        kept = kept.only(client)
    seed = kept.experiment.run.seed
    classes = true_classes(kept) if cluster else []
    tables, rows = [], []
    for k, (name, graph, numbers) in enumerate(
        zip(kept.names, kept.graphs, _numbers(kept), strict=True)
    ):
        first = graph.first_nodes
        columns = {"id": graph.ids[first].astype(str), "client": np.full(len(first), name)}
        if cluster:
            found, agrees = clustered(numbers, classes[k][first], ~graph.train[first], seed)
            columns["cluster"] = found
            rows.append({"client": name} | agrees._asdict())
        tables.append(
            polars.DataFrame(columns | {f"e{i}": numbers[:, i] for i in range(numbers.shape[1])})
        )
    return polars.concat(tables), polars.DataFrame(rows)


def _numbers(kept: Kept) -> list[np.ndarray]:
    """Each client's embeddings, of its nodes or of its small graphs."""
    return embeddings(kept.method, kept.state, kept.graphs, kept.experiment.run)


def true_classes(kept: Kept) -> list[np.ndarray]:
    """Each client's classes as the data has them: a task may drop some, or get them wrong."""
    if kept.result is None:  # a site's own, which nothing was done to
        return [graph.y for graph in kept.graphs]
    known = classes_as_cut(kept.experiment)
    return [known[number] for number in kept.numbers]


def agreement_lines(table: polars.DataFrame) -> list[str]:
    """One line per client, and the means over those that have a score."""
    if table.is_empty():
        return []
    lines = [
        f"{row['client']}: NMI {row['nmi']:.3f}, ARI {row['ari']:.3f} ({row['clusters']} clusters, "
        f"{row['scored']} nodes outside training)"
        for row in table.to_dicts()
    ]
    known = table.filter(polars.col("nmi").is_not_nan())
    if known.height > 1:
        nmi, ari = (float(known[name].to_numpy().mean()) for name in ("nmi", "ari"))
        lines.append(f"mean over clients: NMI {nmi:.3f}, ARI {ari:.3f}")
    return lines
