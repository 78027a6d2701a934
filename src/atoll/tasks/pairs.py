"""Links as something to predict: pairs that are linked, pairs that are not, and the loss on both.

Links are pairs of nodes ``[2, L]`` in the cohort's row numbers; both ends belong to one client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from atoll.cohort import Cohort
from atoll.graph import Graph
from atoll.ops.ragged import segment_mean
from atoll.rng import CohortRng


def linked_pairs(graph: Graph) -> np.ndarray:
    """A graph's links ``[2, m]``: an undirected edge once, and no loops."""

    def build() -> np.ndarray:
        source, target = graph.edges
        kept = source < target if graph.undirected else source != target
        return np.ascontiguousarray(graph.edges[:, kept])

    return graph.cached("linked pairs", build)


def positive_links(cohort: Cohort) -> Tensor:
    """Every client's links ``[2, P]``."""
    return cohort.rows_of([linked_pairs(g) for g in cohort.graphs])


def sample_negatives(cohort: Cohort, rng: CohortRng, counts: Sequence[int] | None = None) -> Tensor:
    """Pairs of each client's nodes that are not linked ``[2, Q]``, from its own stream.

    ``counts`` says how many of each client; by default as many as it has links. A client whose
    nodes are all linked to one another has none.
    """
    if counts is None:
        counts = [linked_pairs(g).shape[1] for g in cohort.graphs]
    pairs = [
        unlinked_pairs(graph, count, stream)
        for graph, count, stream in zip(cohort.graphs, counts, rng.streams, strict=True)
    ]
    return cohort.rows_of(pairs)


def unlinked_pairs(graph: Graph, count: int, stream: np.random.Generator) -> np.ndarray:
    """``count`` pairs ``[2, count]``, each uniform over all that are neither edges nor loops.

    Pair (i, j) has number ``i n + j``. If the forbidden numbers are ``f_0 < f_1 < ...``, then
    ``f_t - t`` allowed ones lie below ``f_t``, so the allowed number of rank r is r plus the count
    of t with ``f_t - t <= r``: one draw per pair, nothing to reject, however dense the graph.
    """
    n = graph.nodes
    allowed_below = graph.cached("allowed pairs below", lambda: _allowed_below(graph))
    free = n * n - len(allowed_below)
    if free == 0:
        return np.zeros((2, 0), dtype=np.int64)
    rank = stream.integers(0, free, size=count)
    return np.stack(np.divmod(rank + np.searchsorted(allowed_below, rank, side="right"), n))


def _allowed_below(graph: Graph) -> np.ndarray:
    n = graph.nodes
    loops = np.arange(n, dtype=np.int64) * (n + 1)
    forbidden = np.unique(
        np.concatenate([graph.edges[0].astype(np.int64) * n + graph.edges[1], loops])
    )
    return forbidden - np.arange(len(forbidden))


def link_scores(z: Tensor, links: Tensor) -> Tensor:
    """``<z_i, z_j>`` of each pair, ``[N, d], [2, L] -> [L]``; its sigmoid is the probability."""
    return (z.index_select(0, links[0]) * z.index_select(0, links[1])).sum(1)


def link_loss(
    z: Tensor,
    positives: Tensor,
    negatives: Tensor,
    cohort: Cohort,
    mean: Literal["pairs", "nodes"] = "pairs",
) -> Tensor:
    """Each client's cross-entropy over its linked and unlinked pairs, a ``mean`` ``[K]``.

    The loss of graph auto-encoders (Kipf and Welling, 2016): ``-log s(<z_i, z_j>)`` for a link and
    ``-log(1 - s(<z_i, z_j>))`` for a pair that is none, s the sigmoid; their sum over a client's
    pairs, divided by the number of its ``pairs`` or of its ``nodes``. Zero without pairs.
    """
    losses = torch.cat([softplus(-link_scores(z, positives)), softplus(link_scores(z, negatives))])
    client = cohort.batch[torch.cat([positives[0], negatives[0]])]
    mean_K = segment_mean(losses, client, cohort.k)
    if mean == "pairs":
        return mean_K
    return mean_K * torch.bincount(client, minlength=cohort.k) / torch.tensor(cohort.sizes)
