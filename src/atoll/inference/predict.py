"""A class and a probability per class, for the nodes of a run or for new ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars
import torch
from torch import Tensor

from atoll.errors import AtollError
from atoll.experiment.embeddings import by_client
from atoll.graph import Graph
from atoll.inference.kept import Kept, open_run
from atoll.inference.new_nodes import NewNodes, with_new_nodes


def predict(
    run_dir: str | Path | Kept,
    client: str | None = None,
    nodes: str | Path | None = None,
    edges: str | Path | None = None,
) -> polars.DataFrame:
    """What each client's model of the best round says of its nodes, one row per node.

    Columns: ``id``, ``client``, ``predicted`` (the likeliest class) and, per class, ``p_CLASS``,
    its probability. Without ``nodes`` these are the run's own nodes; with it those of a table like
    the one that was trained on, which ``edges`` link to each other and to known nodes. Where small
    graphs are classified there is one row per graph, under the id of its first node.
    """
    kept = open_run(run_dir)
    task = kept.experiment.method.task.registered_name
    if task not in ("nodes", "graphs"):
        raise AtollError(
            f"'{kept.folder}' was trained for the task '{task}', which gives nodes no class; use: "
            f"atoll embed"
        )
    if edges is not None and nodes is None:
        raise AtollError("--edges is given without --nodes; name the table of new nodes too.")
    if nodes is not None and task == "graphs":
        raise AtollError(
            "--nodes is for runs that classify nodes; this one classifies whole graphs, and only "
            "those of its own data."
        )
    if nodes is None:
        chosen = kept if client is None else kept.only(client)
        return scores(chosen, logits(chosen, list(chosen.graphs)), _all_nodes(chosen))
    chosen, new = with_new_nodes(kept, client, Path(nodes), None if edges is None else Path(edges))
    return scores(chosen, logits(chosen, [n.graph for n in new]), new)


def logits(kept: Kept, graphs: list[Graph]) -> list[Tensor]:
    """Each client's class scores of its nodes ``[n_k, classes]``."""
    params_K, cohort = kept.on(graphs)
    with torch.no_grad():
        return by_client(kept.method.model.apply(params_K, cohort), cohort)


def scores(kept: Kept, logits_K: list[Tensor], nodes_K: list[NewNodes]) -> polars.DataFrame:
    """The table of predictions for some nodes of each client."""
    names = np.array(kept.class_names)
    tables = []
    for client, own, chosen in zip(kept.names, logits_K, nodes_K, strict=True):
        at = own[torch.from_numpy(chosen.rows)]
        chances = at.double().softmax(1).numpy()
        tables.append(
            polars.DataFrame(
                {
                    "id": chosen.graph.ids[chosen.rows].astype(str),
                    "client": np.full(len(at), client),
                    "predicted": names[at.argmax(1).numpy()],
                }
                | {f"p_{name}": chances[:, c] for c, name in enumerate(names)}
            )
        )
    return polars.concat(tables)


def _all_nodes(kept: Kept) -> list[NewNodes]:
    return [NewNodes(graph, graph.first_nodes) for graph in kept.graphs]
