"""The nodes that a last layer is asked about, where it is asked about no others."""

from __future__ import annotations

import torch

from atoll.cohort import Cohort
from atoll.ops.sparse import Sparse


class Asked:
    """A split's nodes: ``rows [R]`` of a cohort, client by client, ``sizes`` of each.

    The operators, by name, lead from all nodes to these, ``[R, N]``.
    """

    def __init__(self, cohort: Cohort, split: str, *operators: str) -> None:
        self.k = cohort.k
        self.rows = cohort.rows(split)
        self.batch = cohort.batch[self.rows]
        self.sizes = tuple(torch.bincount(self.batch, minlength=self.k).tolist())
        # The cohort itself is not kept: it keeps what is asked of it.
        self._operators = {name: cohort.operator(name).at(self.rows) for name in operators}

    def operator(self, name: str) -> Sparse:
        return self._operators[name]
