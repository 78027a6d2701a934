"""Which of the other clients' nodes become a client's halo nodes, and beside which of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

# Rows compared at once with all others: bounds the memory that matching takes.
_BLOCK = 1024


class Halo(NamedTuple):
    """A client's halo nodes: the row that each is linked to ``[H]``, embeddings ``[H, d]``."""

    linked_to: Tensor
    embedding: Tensor


def no_halo(row: Tensor) -> Halo:
    """No halo node; ``row`` looks like an embedding."""
    return Halo(torch.zeros(0, dtype=torch.int64), row.new_zeros(0, *row.shape))


def similar_nodes(blocks: Sequence[Tensor], threshold: float, neighbours: int) -> list[Halo]:
    """For each client's rows the most similar rows of the others, if above a threshold.

    ``blocks`` has one matrix ``[n_k, d]`` per client. For every row, at most ``neighbours`` rows of
    other clients whose cosine with it exceeds ``threshold``, best first.
    """
    everybody = torch.cat(list(blocks))
    unit = torch.nn.functional.normalize(everybody, dim=1)
    client_of = _clients(blocks)
    found = []
    for client, own in enumerate(torch.split(unit, [*map(len, blocks)])):
        others = torch.nonzero(client_of != client).flatten()
        theirs = unit[others]
        rows, halo = [others[:0]], [others[:0]]
        for start in range(0, len(own), _BLOCK):
            similarity = own[start : start + _BLOCK] @ theirs.T
            best, column = similarity.topk(min(neighbours, len(others)), dim=1)
            row, place = torch.nonzero(best > threshold, as_tuple=True)
            rows.append(row + start)
            halo.append(others[column[row, place]])
        found.append(Halo(torch.cat(rows), everybody[torch.cat(halo)]))
    return found


def same_anchors(blocks: Sequence[Tensor], numbers: Sequence[Tensor]) -> list[Halo]:
    """For each client's anchors the rows that other clients have for the same anchors.

    ``numbers [n_k]`` are the anchors that the rows of a block ``[n_k, d]`` stand for. A row of
    zeros is that of an anchor without neighbours, and becomes nobody's halo node.
    """
    everybody, number = torch.cat(list(blocks)), torch.cat(list(numbers))
    client_of = _clients(blocks)
    useful = torch.nonzero((everybody != 0).any(1)).flatten()
    order = useful[torch.argsort(number[useful], stable=True)]
    found = []
    for client, own in enumerate(numbers):
        theirs = order[client_of[order] != client]
        first = torch.searchsorted(number[theirs], own)
        count = torch.searchsorted(number[theirs], own, right=True) - first
        row = torch.repeat_interleave(torch.arange(len(own)), count)
        within = torch.arange(len(row)) - torch.repeat_interleave(count.cumsum(0) - count, count)
        found.append(Halo(row, everybody[theirs[first[row] + within]]))
    return found


def _clients(blocks: Sequence[Tensor]) -> Tensor:
    """The client, by position, of each row of all blocks."""
    return torch.repeat_interleave(torch.arange(len(blocks)), torch.tensor([*map(len, blocks)]))
