"""Inputs with rows for further nodes, which no task knows of."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from atoll.cohort.inputs import Inputs


class Extended(Inputs):
    """K clients' rows at ``home``, each followed by rows for ``further[k]`` other nodes."""

    def __init__(self, home: Inputs, further: Sequence[int]) -> None:
        super().__init__([n + m for n, m in zip(home.sizes, further, strict=True)], home.dtype)
        self.home = home
        own = torch.split(torch.arange(sum(home.sizes)), list(home.sizes))
        more = torch.split(torch.arange(sum(further)) + sum(home.sizes), list(further))
        self._order = torch.cat([rows for pair in zip(own, more, strict=True) for rows in pair])

    def in_order(self, own: Tensor, further: Tensor) -> Tensor:
        """All clients' own rows and all further ones, put client by client ``[N, h]``."""
        return torch.cat([own, further]).index_select(0, self._order)
