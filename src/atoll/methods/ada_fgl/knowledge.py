"""What a client makes of its graph and the common model before it trains alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from atoll.cohort import Cohort
from atoll.device import of_numpy
from atoll.graph import Graph, dense
from atoll.ops.ragged import segment_mean
from atoll.ops.sparse import Sparse
from atoll.rng import CohortRng

# Rows of a client's n x n pairs that exist at a time.
BLOCK = 1024
_STEPS = 10
_KEPT = 0.5


class Knowledge(NamedTuple):
    """``Pr [N, C]`` by the common model, its rows scaled to length one, and ``X~ [N, (hops+1) f]``.

    ``alike_K`` is how many ordered pairs of a client's nodes are alike.
    """

    shares: Tensor
    unit: Tensor
    smoothed: Tensor
    alike_K: Tensor


def knowledge(cohort: Cohort, shares: Tensor, alpha: float, level: float, hops: int) -> Knowledge:
    """The clients' knowledge, from the common model's class probabilities ``shares [N, C]``."""
    unit = normalize(shares, dim=1)
    parts, alike = [], []
    for graph, own in zip(cohort.inputs.graphs, torch.split(unit, list(cohort.sizes)), strict=True):
        parts.append(smoothed(graph, own, alpha, level, hops))
        alike.append(sum(rows.sum() for _, rows in alike_pairs(own, level)))
    return Knowledge(shares, unit, torch.cat(parts), torch.tensor(alike, dtype=shares.dtype))


def alike_pairs(unit: Tensor, level: float) -> Iterator[tuple[slice, Tensor]]:
    """``S = [cos(Pr_i, Pr_j) > level]`` without its diagonal, by blocks of rows ``[b, n]``."""
    n = len(unit)
    for begin in range(0, n, BLOCK):
        rows = slice(begin, min(begin + BLOCK, n))
        alike = unit[rows] @ unit.T > level
        alike[torch.arange(rows.stop - begin), torch.arange(begin, rows.stop)] = False
        yield rows, alike


def smoothed(graph: Graph, unit: Tensor, alpha: float, level: float, hops: int) -> Tensor:
    """``X~ = [X, P X, ..., P^hops X]`` of one client, ``[n, (hops + 1) f]``.

    ``P = D^-1/2 (A' + I) D^-1/2`` with ``A' = alpha A + (1 - alpha) S``. S may have as many
    entries as there are pairs, so it is made anew, block by block, for every product.
    """
    A = Sparse(graph.weighted_adjacency, unit.dtype)

    def spread(y: Tensor) -> Tensor:
        out = alpha * (A @ y)
        for rows, alike in alike_pairs(unit, level):
            out[rows] += (1 - alpha) * (alike.to(y.dtype) @ y)
        return out + y

    x = of_numpy(dense(graph.x)).to(unit.dtype)
    scale = spread(torch.ones_like(unit[:, :1])).rsqrt()
    found = [x]
    for _ in range(hops):
        found.append(scale * spread(scale * found[-1]))
    return torch.cat(found, dim=1)


def homophily(cohort: Cohort, rng: CohortRng) -> Tensor:
    """The homophily confidence score of each client ``[K]``: how well neighbours' labels fit.

    Half of a client's training nodes, drawn once for all, hide their labels. ``Y0`` is one-hot at
    the others and ``1 / C`` elsewhere; ten times ``Y <- (P Y + Y0) / 2``, and ``Y0`` added again
    at those that show their labels, with the GCN's P. The score is the share of hidden labels
    that the largest entry guesses right.
    """

    def score() -> Tensor:
        once = CohortRng(rng.seed, rng.clients, 0, "hidden half")
        shown, hidden = _halves(cohort, once)
        y0 = torch.full((len(cohort.y), cohort.classes), 1 / cohort.classes, dtype=cohort.dtype)
        known = torch.nn.functional.one_hot(cohort.y[shown], cohort.classes).to(cohort.dtype)
        y0[shown] = known
        y, P = y0, cohort.operator("gcn")
        for _ in range(_STEPS):
            y = _KEPT * (P @ y) + (1 - _KEPT) * y0
            y[shown] += known
        right = (y[hidden].argmax(1) == cohort.y[hidden]).to(cohort.dtype)
        return segment_mean(right, cohort.batch[hidden], cohort.k)

    return cohort.cached(f"homophily confidence, seed {rng.seed}", score)


def _halves(cohort: Cohort, rng: CohortRng) -> tuple[Tensor, Tensor]:
    """Training nodes that show their labels, and the others, at least as many."""
    train, client = (
        cohort.rows("train").cpu().numpy(),
        cohort.batch[cohort.rows("train")].cpu().numpy(),
    )
    shown, hidden = [], []
    for position, stream in enumerate(rng.streams):
        mixed = stream.permutation(train[client == position])
        shown.append(mixed[: len(mixed) // 2])
        hidden.append(mixed[len(mixed) // 2 :])
    return of_numpy(np.concatenate(shown)), of_numpy(np.concatenate(hidden))
