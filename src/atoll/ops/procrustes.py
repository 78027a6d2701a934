"""Embeddings of shared nodes, carried from one client's space into another's and averaged there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

# Distances are computed for so many pairs of nodes at a time.
_PAIRS_AT_ONCE = 4_000_000


class Alignment(NamedTuple):
    """What aligning every ordered pair of clients gives.

    ``means`` holds for each client its shared nodes' average embedding, in its own space
    ``[n_i, d]``; ``precision`` how well the pairs agreed before averaging, one number for each k
    of nearest neighbours, zero where no two clients share a node.
    """

    means: list[Tensor]
    precision: Tensor


def align(
    embeddings: Sequence[Tensor], numbers: Sequence[np.ndarray], neighbours: Sequence[int] = ()
) -> Alignment:
    """Bring all clients' embeddings into each one's space and average them, node by node.

    ``X_i' (u) = mean over the clients j that hold u of X_j (u) W_ji``, with ``W_ii = I``, which is
    the paper's ``1/k (sum_j X_ji + X_i)`` where all clients hold the same nodes (PPFL-GNN,
    Algorithm 1, lines 11 to 18). ``numbers[i]`` names the rows of ``embeddings[i] [n_i, d]``: equal
    numbers are the same node. Clients that share nothing do not touch each other.
    """
    wide = [e.double() for e in embeddings]
    total = [e.clone() for e in wide]
    holders = [torch.ones(len(e), 1, dtype=torch.float64) for e in wide]
    precisions = []
    for i, j, here, there in pairs(numbers):
        target, source = wide[i][here], wide[j][there]
        moved = source @ rotation(source, target)
        total[i].index_add_(0, here, moved)
        holders[i][here] += 1
        precisions.append([knn_precision(moved, target, k) for k in neighbours])
    means = [(t / n).to(e.dtype) for t, n, e in zip(total, holders, embeddings, strict=True)]
    agreed = torch.tensor(precisions, dtype=torch.float64).view(len(precisions), len(neighbours))
    return Alignment(means, agreed.sum(0) / max(len(precisions), 1))


def rotation(source: Tensor, target: Tensor) -> Tensor:
    """The orthogonal ``W [d, d]`` that makes ``|source W - target|_F`` least.

    ``W = U V^T`` with ``U S V^T = SVD(source^T target)``: the paper's eq. 4, written there for
    embeddings as columns. Rows are nodes here, ``source, target [n, d]``. Reflections are
    allowed. With fewer nodes than dimensions W is not unique, but the moved source is: what is
    left open is what W does to directions in which the source has no extent.
    """
    u, _, vt = torch.linalg.svd(source.T @ target)
    return u @ vt


def knn_precision(moved: Tensor, target: Tensor, k: int) -> float:
    """The share of nodes whose own target is among the k targets nearest to where they moved.

    Euclidean distance, which is what the rotation minimises; ``[n, d]`` each, row for row the
    same node.
    """
    n = len(target)
    size = max(1, _PAIRS_AT_ONCE // max(n, 1))
    hits = 0
    for rows in torch.arange(n).split(size):
        distance = torch.cdist(moved[rows], target)
        own = distance[torch.arange(len(rows)), rows]
        hits += int(((distance < own[:, None]).sum(1) < k).sum())
    return hits / n


def pairs(numbers: Sequence[np.ndarray]) -> list[tuple[int, int, Tensor, Tensor]]:
    """Every ordered pair (i, j) that shares nodes, with their rows at i and at j."""
    found = []
    for i, mine in enumerate(numbers):
        for j, theirs in enumerate(numbers):
            if i == j:
                continue
            shared, here, there = np.intersect1d(mine, theirs, return_indices=True)
            if len(shared):
                found.append((i, j, torch.from_numpy(here), torch.from_numpy(there)))
    return found
