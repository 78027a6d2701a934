"""Collections of small graphs, one per client: what is read out of nodes, graph by graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from atoll.device import of_numpy
from atoll.graph import Graph, first_nodes


class Collection:
    """The small graphs of K clients, G in all: client by client, ``sizes[k]`` of each.

    ``of [N]`` says which of them each row belongs to, ``batch [G]`` whose they are.
    """

    def __init__(self, graphs: Sequence[Graph]) -> None:
        graph_of_K = [g.graph_of for g in graphs if g.graph_of is not None]
        self.k = len(graph_of_K)
        self.sizes = tuple(len(first_nodes(of)) for of in graph_of_K)
        shift = np.cumsum([0, *self.sizes[:-1]])
        joined = [of + s for of, s in zip(graph_of_K, shift, strict=True)]
        self.of = of_numpy(np.concatenate(joined))
        self.batch = torch.repeat_interleave(torch.arange(self.k), torch.tensor(self.sizes))


def collection_of(graphs: Sequence[Graph]) -> Collection | None:
    """None unless all clients hold collections of small graphs."""
    return Collection(graphs) if all(g.graph_of is not None for g in graphs) else None
