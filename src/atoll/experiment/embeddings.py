"""What models make of nodes before these are classified, and whether it tells classes apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.device import to_numpy
from atoll.experiment.config import Experiment, Run
from atoll.experiment.parties import load_whole, parties_of
from atoll.graph import Graph
from atoll.methods.base import Method
from atoll.methods.client import Client
from atoll.rng import CohortRng
from atoll.tasks.clustering import clustered
from atoll.tree import Kinds, Params

Scores = dict[str, float | None]


def seen_by(
    method: Method, state: Kinds, graphs: Sequence[Graph], run: Run
) -> tuple[Params, Cohort]:
    """The clients' models, and what these compute from on some graphs, one per client."""
    cohort = Cohort(list(graphs), dtype=getattr(torch, run.dtype))
    rng = CohortRng(run.seed, cohort.clients, 0, "use")
    seen = method.view(Client(method, cohort, rng, state))
    return {name: p.contiguous() for name, p in state["model"].items()}, seen.cohort


def by_client(rows: Tensor, cohort: Cohort) -> list[Tensor]:
    """Each client's own nodes, of what was computed for all rows of a cohort."""
    blocks = torch.split(rows, list(cohort.sizes))
    return [block[: g.nodes] for block, g in zip(blocks, cohort.graphs, strict=True)]


def embeddings(method: Method, state: Kinds, graphs: Sequence[Graph], run: Run) -> list[np.ndarray]:
    """The output of the layer before the last one ``[n, d]``, of each client's nodes or graphs."""
    params_K, cohort = seen_by(method, state, graphs, run)
    with torch.no_grad():
        blocks = by_client(method.model.intermediate(params_K, cohort), cohort)
    return [to_numpy(block)[g.first_nodes] for block, g in zip(blocks, graphs, strict=True)]


def classes_as_cut(experiment: Experiment) -> list[np.ndarray]:
    """Each client's classes as the data has them: a task may drop some, or get them wrong."""
    whole = load_whole(experiment)
    graphs = [whole] if experiment.method.pooled else parties_of(experiment, whole)
    return [graph.y for graph in graphs]


def cluster_scores(experiment: Experiment, state: Kinds, graphs: Sequence[Graph]) -> list[Scores]:
    """``nmi`` and ``ari`` of each client's embeddings; None where it has too few nodes for them.

    k-means sees all of a client's nodes and is scored on those that the model was not trained on.
    """
    numbers = embeddings(experiment.method.scorer, state, graphs, experiment.run)
    found = []
    for graph, y, own in zip(graphs, classes_as_cut(experiment), numbers, strict=True):
        first = graph.first_nodes
        _, agrees = clustered(own, y[first], ~graph.train[first], experiment.run.seed)
        known = agrees.nmi == agrees.nmi
        found.append({name: getattr(agrees, name) if known else None for name in ("nmi", "ari")})
    return found
