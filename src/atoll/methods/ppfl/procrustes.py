"""Embeddings of shared nodes, carried from one client's space into another's and averaged there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from atoll.device import of_numpy

# Distances are computed for so many pairs of nodes at a time.
_PAIRS_AT_ONCE = 4_000_000
# Squared distances closer than so many units of rounding are equal.
_TIE = 64


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
    total = [e.double() for e in embeddings]
    holders = [torch.ones(len(e), 1, dtype=torch.float64) for e in embeddings]
    precisions = []
    for i, j, here, there in pairs(numbers):
        target, source = embeddings[i][here], embeddings[j][there]
        moved = source.double() @ rotation(source, target)
        total[i] = total[i].index_add(0, here, moved)
        holders[i][here] += 1
        precisions.append(knn_precision(moved, target, neighbours) if neighbours else [])
    means = [(t / n).to(e.dtype) for t, n, e in zip(total, holders, embeddings, strict=True)]
    agreed = torch.tensor(precisions, dtype=torch.float64).view(len(precisions), len(neighbours))
    return Alignment(means, agreed.sum(0) / max(len(precisions), 1))


def rotation(source: Tensor, target: Tensor) -> Tensor:
    """The orthogonal ``W [d, d]`` that makes ``|source W - target|_F`` least, in float64.

    ``W = U V^T`` with ``U S V^T = SVD(source^T target)``: the paper's eq. 4, written there for
    embeddings as columns. Rows are nodes here, ``source, target [n, d]``. Reflections are
    allowed. Directions whose singular value is zero to working precision (there are such with
    fewer nodes than dimensions) could be turned anywhere; W drops them instead, so that the
    result depends on the embeddings alone.
    """
    left, strength, right = torch.linalg.svd(source.double().T @ target.double())
    least = torch.finfo(source.dtype).eps * source.shape[1] * strength.max()
    return torch.matmul(left * (strength > least), right)


def knn_precision(moved: Tensor, target: Tensor, neighbours: Sequence[int]) -> list[float]:
    """The share of nodes whose own target is among the k targets nearest to where they moved.

    For each k in ``neighbours``; Euclidean distance, which is what the rotation minimises.
    ``moved, target [n, d]`` are row for row the same node. Targets as near as one's own to working
    precision do not count as nearer: nodes with the same neighbours have the same embedding, and
    rounding must not decide between them.
    """
    n = len(target)
    tie = _TIE * torch.finfo(target.dtype).eps
    moved, target = moved.double(), target.double()
    size = max(1, _PAIRS_AT_ONCE // max(n, 1))
    hits = [0] * len(neighbours)
    length = target.square().sum(1)
    scale = tie * (moved.square().sum(1) + length)
    for rows in torch.split(torch.arange(n), size):
        # Squared distances less what all of a row have in common: the order is the same.
        distance = torch.addmm(length, moved[rows], target.T, alpha=-2)
        own = distance[torch.arange(len(rows)), rows] - scale[rows]
        nearer = (distance < own[:, None]).sum(1, dtype=torch.int32)
        hits = [h + int((nearer < k).sum()) for h, k in zip(hits, neighbours, strict=True)]
    return [h / n for h in hits]


def pairs(numbers: Sequence[np.ndarray]) -> list[tuple[int, int, Tensor, Tensor]]:
    """Every ordered pair (i, j) that shares nodes, with their rows at i and at j."""
    found = []
    for i, mine in enumerate(numbers):
        for j, theirs in enumerate(numbers):
            if i == j:
                continue
            shared, here, there = np.intersect1d(mine, theirs, return_indices=True)
            if len(shared):
                found.append((i, j, of_numpy(here), of_numpy(there)))
    return found
