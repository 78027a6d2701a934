"""Links that a graph lacks and embeddings suggest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from atoll.cohort import Cohort
from atoll.device import of_numpy
from atoll.graph import Graph, undirected_edges
from atoll.leaves import Ragged

# Scores held at once; all of them would be quadratic in the nodes.
_BLOCK_BYTES = 2**26


def best_links(
    query: Tensor,
    rows: np.ndarray,
    z: Tensor,
    count: int,
    linked: sparse.csr_array | None = None,
) -> Tensor:
    """For each of some rows the ``count`` nodes with the highest ``<query, z>``.

    ``query [a, d]`` stands for the rows ``[a]`` of a graph with nodes embedded as ``z [n, d]``. A
    row's own node and those it is ``linked`` to are left out, unless ``linked`` is None: then all
    nodes are candidates. Returns pairs (row, node) ``[<= a count, 2]``, a row's best one first.
    Memory is ``O(a + n)``: scores are computed for one block of rows at a time.
    """
    count = min(count, len(z))
    height = max(1, _BLOCK_BYTES // max(1, z.element_size() * len(z)))
    found = [torch.zeros((0, 2), dtype=torch.int64)]
    for start in range(0, len(rows), height):
        block = rows[start : start + height]
        scores = query[start : start + height] @ z.T
        if linked is not None:
            _forbid(scores, block, linked)
        best, node = _top(scores, count)
        pairs = torch.stack([of_numpy(block)[:, None].expand_as(node), node], dim=2)
        found.append(pairs[best > -torch.inf])
    return torch.cat(found)


def anchor_links(query: Ragged, z: Tensor, cohort: Cohort, count: int, only_new: bool) -> Ragged:
    """The best nodes of its own ``z [N, d]`` for each client's anchors, which ``query`` stands for.

    ``only_new`` leaves out the anchors themselves and what they are linked to. Returns pairs
    ``[m, 2]`` in each client's own rows.
    """
    nodes_K = torch.split(z, list(cohort.sizes))
    blocks = zip(query.blocks(), cohort.graphs, nodes_K, strict=True)
    found = [
        best_links(anchors, graph.anchors, nodes, count, graph.adjacency if only_new else None)
        for anchors, graph, nodes in blocks
    ]
    return Ragged(torch.cat(found), tuple(len(links) for links in found))


def of_anchors(z: Tensor, cohort: Cohort) -> Ragged:
    """The anchors' rows of ``z [N, d]``, one block per client."""
    return Ragged(z[cohort.anchors.values], cohort.anchors.sizes)


def _forbid(scores: Tensor, rows: np.ndarray, linked: sparse.csr_array) -> None:
    neighbours = linked[rows]
    at = np.repeat(np.arange(len(rows)), np.diff(neighbours.indptr))
    scores[of_numpy(at), of_numpy(neighbours.indices.astype(np.int64))] = -torch.inf
    scores[torch.arange(len(rows)), of_numpy(rows)] = -torch.inf


def _top(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    if count == 1:  # a sort would take several times as long
        best, node = scores.max(dim=1, keepdim=True)
        return best, node
    best, node = scores.topk(count, dim=1)
    return best, node


def mean_over_owners(sent: Tensor, numbers: Tensor, count: int) -> Tensor:
    """``Z_i^G = sum_k Z_i^k / |K_i|`` (eq. 3.3): ``[rows, d] -> [count, d]`` by anchor number."""
    total = sent.new_zeros(count, sent.shape[1]).index_add(0, numbers, sent)
    return total / torch.bincount(numbers, minlength=count).clamp(min=1)[:, None]


def with_links(graph: Graph, links: np.ndarray) -> Graph:
    """The graph with further undirected links, ``[m, 2]`` in its own rows; nothing stands twice.

    A new link weighs as much as the graph's edges on average.
    """
    if len(links) == 0:
        return graph
    both = np.concatenate([graph.edges, undirected_edges(links.T, graph.nodes)], axis=1)
    # The first of equal edges is the graph's own.
    key, first = np.unique(both[0].astype(np.int64) * graph.nodes + both[1], return_index=True)
    weights = graph.weights
    if weights is not None:
        new = np.full(both.shape[1] - len(weights), graph.mean_weight)
        weights = np.concatenate([weights, new])[first]
    return replace(graph, edges=np.stack(np.divmod(key, graph.nodes)), weights=weights)


def augmented(cohort: Cohort, links: Ragged) -> Cohort:
    """The cohort whose graphs have further links, one block of pairs per client, in its own rows.

    The links are the truth and live in the clients' state. The cohort made of them is remembered
    for as long as the original lives, and made anew when the links are others.
    """
    if len(links.values) == 0:
        return cohort

    def build() -> Cohort:
        blocks = zip(cohort.graphs, links.blocks(), strict=True)
        return cohort.with_graphs(
            [with_links(graph, block.cpu().numpy()) for graph, block in blocks]
        )

    return cohort.latest("augmented", (links,), build)


# What is told of the links that were added.
LINK_FIGURES = ("links_added", "links_ends", "links_alike")


def link_figures(links: Tensor, y: np.ndarray) -> tuple[float, float, float]:
    """Of links ``[m, 2]`` from anchors to other nodes: how many, to how many different nodes, and
    the share that joins one class, of those whose classes are known; 0 where there are none."""
    start, end = links.cpu().numpy().T
    known = (y[start] >= 0) & (y[end] >= 0)
    alike = float((y[start] == y[end])[known].mean()) if known.any() else 0.0
    return float(len(links)), float(len(np.unique(end))), alike
