"""What a model makes of each node before it is classified, as a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars
import torch

from atoll.inference.kept import open_run


def embed(run_dir: str | Path, client: str | None = None) -> polars.DataFrame:
    """One row per node: ``id``, ``client`` and the embedding's numbers ``e0``, ``e1``, ...

    The embedding is the output of the layer before the last one, by the model of the best round
    of the client that holds the node (models without such a layer give their class scores).
    """
    kept = open_run(Path(run_dir))
    if client is not None:
        kept = kept.only(client)
    params_K, cohort = kept.on(list(kept.graphs))
    with torch.no_grad():
        blocks = kept.by_client(kept.method.model.intermediate(params_K, cohort), cohort)
    tables = []
    for name, graph, block in zip(kept.names, kept.graphs, blocks, strict=True):
        columns = {"id": graph.ids.astype(str), "client": np.full(graph.nodes, name)}
        numbers = block.numpy()
        tables.append(
            polars.DataFrame(columns | {f"e{i}": numbers[:, i] for i in range(numbers.shape[1])})
        )
    return polars.concat(tables)
