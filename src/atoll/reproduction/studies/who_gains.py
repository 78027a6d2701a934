"""Which nodes the exchange of embeddings is for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from atoll.errors import AtollError
from atoll.experiment.config import Experiment
from atoll.experiment.runner import load_parties, simulate
from atoll.graph import Graph
from atoll.methods.client import Client
from atoll.methods.ppfl.downstream import Classifier, right_where_left_out
from atoll.methods.ppfl.embedding_alignment import EmbeddingAlignment
from atoll.reproduction.studies.base import Findings, Study, studies
from atoll.rng import CohortRng
from atoll.tree import nested

GROUPS = ("public_linked", "public_alone", "private_linked", "private_alone")


@studies.register("who-gains")
class WhoGains(Study):
    """PPFL-GNN's gain, taken apart: public and private nodes, with a neighbour at their client and
    alone there.

    As in the study ``alignment``, clients train with and without exchange for as long, and each
    classifier ``c`` is cross-validated on all of a client's labelled nodes. Figures, in percent,
    for each group of nodes ``g``: ``c_share_g`` (of all clients' nodes), ``c_loc_g`` and
    ``c_fed_g`` (nodes that are classified right), ``c_part_g`` (their part of GLOBAL, to which each
    client adds its own difference); and ``c_global``.
    """

    trains = False
    caption = "Nodes classified right in percent, cross-validated at each client"

    def findings(self, experiment: Experiment) -> Findings:
        method = experiment.method
        if not isinstance(method, EmbeddingAlignment) or method.judged != "all":
            raise AtollError(
                "the study 'who-gains' takes apart what method.judged = 'all' scores; choose that, "
                "and ppfl-deepwalk or ppfl-gat."
            )
        alone, together = (
            _judged(replace(experiment, method=replace(method, exchange=exchange)), method)
            for exchange in (False, True)
        )
        figures: dict[str, float] = {}
        for c in method.classifiers:
            sides = list(zip(alone[c], together[c], strict=True))
            nodes = sum(len(group) for (group, _), _ in sides)
            for g, name in enumerate(GROUPS):
                loc = np.concatenate([right[group == g] for (group, right), _ in sides])
                fed = np.concatenate([right[group == g] for _, (group, right) in sides])
                figures[f"{c}_share_{name}"] = 100 * len(loc) / nodes
                figures[f"{c}_loc_{name}"] = _percent(loc)
                figures[f"{c}_fed_{name}"] = _percent(fed)
                figures[f"{c}_part_{name}"] = 100 * sum(
                    (fed_k[group == g].sum() - loc_k[group == g].sum()) / len(group)
                    for (group, loc_k), (_, fed_k) in sides
                )
            figures[f"{c}_global"] = sum(figures[f"{c}_part_{name}"] for name in GROUPS)
        return Findings(figures)


# Each client's labelled nodes: the group of each, and whether it was classified right.
Judged = dict[Classifier, list[tuple[np.ndarray, np.ndarray]]]


def _judged(experiment: Experiment, method: EmbeddingAlignment) -> Judged:
    """What classifiers make of each client's nodes after all rounds."""
    fed, server = simulate(experiment, load_parties(experiment))
    rounds, seed = experiment.run.rounds, experiment.run.seed
    for r in range(1, rounds + 1):
        fed.begin(r)
        server = experiment.method.round(fed, server, r)
    cohort = fed.host.cohort
    found: Judged = {c: [] for c in method.classifiers}
    for c in method.classifiers:
        # The randomness of the step that scores a run at its end.
        rng = CohortRng(seed, cohort.clients, rounds, f"judge_{c}#0")
        client = Client(method, cohort, rng, nested(fed.whole_state()))
        blocks = torch.split(method.embeddings(client), list(cohort.sizes))
        for graph, h, stream in zip(cohort.graphs, blocks, rng.streams, strict=True):
            known = graph.y >= 0
            right = right_where_left_out(
                c, h.numpy()[known], graph.y[known], method.folds, int(stream.integers(2**31))
            )
            found[c].append((groups_of(graph)[known], right))
    return found


def groups_of(graph: Graph) -> np.ndarray:
    """The number of each node's group in :data:`GROUPS`; public nodes are a client's anchors."""
    private = np.ones(graph.nodes, dtype=int)
    private[graph.anchors] = 0
    alone = np.bincount(graph.edges.reshape(-1), minlength=graph.nodes) == 0
    found: np.ndarray = 2 * private + alone
    return found


def _percent(right: np.ndarray) -> float:
    return 100 * float(right.mean()) if len(right) else float("nan")
