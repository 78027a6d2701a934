"""Target nodes: the only ones a last layer has to be computed at."""

from __future__ import annotations

import torch
from torch import Tensor

from atoll.cached import Cached
from atoll.cohort.inputs import Inputs, Operator


class Targets(Cached):
    """Target nodes ``rows [R]`` of K clients, client by client, ``sizes`` of each.

    ``batch [R]`` are their clients' positions. Operators lead from all nodes to these, ``[R, N]``.
    """

    def __init__(self, inputs: Inputs, rows: Tensor, batch: Tensor) -> None:
        super().__init__()
        self.k = inputs.k
        self.rows = rows
        self.batch = batch
        self.sizes = tuple(torch.bincount(batch, minlength=self.k).tolist())
        self._inputs = inputs

    def operator(self, name: str) -> Operator:
        return self.cached(name, lambda: self._inputs.operator_at(name, self.rows))
