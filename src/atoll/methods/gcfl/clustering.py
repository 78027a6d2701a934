"""Dividing clients into groups: minimum cuts, and distances between sequences."""

from __future__ import annotations

import torch
from torch import Tensor


def min_cut(weights: Tensor) -> Tensor:
    """The two sides of the lightest cut (Stoer and Wagner, 1997), ``[n, n] -> [n]`` boolean.

    ``weights`` are symmetric and not negative; the diagonal does not count. The first vertex is on
    the side of False.
    """
    import networkx

    graph = networkx.Graph()
    for i, row in enumerate(weights.tolist()):
        graph.add_weighted_edges_from((i, j, w) for j, w in enumerate(row[:i]))
    _, (one, _) = networkx.stoer_wagner(graph)
    side = torch.zeros(len(weights), dtype=torch.bool)
    side[one] = True
    return side ^ side[0]


def dtw_distances(sequences: Tensor) -> Tensor:
    """Dynamic time warping distance of every pair of sequences, ``[n, t] -> [n, n]``.

    A warping path aligns every entry of one sequence with entries of the other, in order; the
    distance is the root of the least sum of squared differences along such a path. All pairs are
    advanced together, one cell of the path's table at a time.
    """
    n, t = sequences.shape
    cost = (sequences[:, None, :, None] - sequences[None, :, None, :]).square()
    # Row and column 0 stand before the first entries.
    reached = sequences.new_full((t + 1, t + 1, n, n), torch.inf)
    reached[0, 0] = 0.0
    for a in range(1, t + 1):
        for b in range(1, t + 1):
            before = torch.stack([reached[a - 1, b], reached[a, b - 1], reached[a - 1, b - 1]])
            reached[a, b] = cost[:, :, a - 1, b - 1] + before.amin(0)
    return reached[t, t].sqrt()
