"""Rows that clients propose to each other, in turns: who sends how many, and whose is which."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from atoll.rng import CohortRng
from atoll.tree import Ragged, Tree, under


def turn_of(rng: CohortRng, shared: Tree) -> CohortRng:
    """The coins of an exchange: what was proposed can be made again when the answer comes."""
    number = int(under(shared, "turn")["number"])
    return CohortRng(rng.seed, rng.clients, rng.round, f"exchange {number}")


def chosen_rows(sizes: tuple[int, ...], shared: Tree, turn: CohortRng) -> Ragged:
    """Which of its rows each client proposes: at most the quota, in their order."""
    quota = int(under(shared, "turn")["quota"])
    picked, first = [], 0
    for size, stream in zip(sizes, turn.streams, strict=True):
        rows = torch.from_numpy(stream.permutation(size)[:quota])
        picked.append(first + rows.sort().values)
        first += size
    return Ragged(torch.cat(picked), tuple(len(rows) for rows in picked))


def own_spans(clients: Sequence[int], proposers: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """Which of all proposed rows are each client's own: the first and the one after the last."""
    spans, first = dict.fromkeys(clients, (0, 0)), 0
    for client, size in zip(proposers, sizes, strict=True):
        spans[client] = (first, first + size)
        first += size
    return torch.tensor([spans[client] for client in clients])
