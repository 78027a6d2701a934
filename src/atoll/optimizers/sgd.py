"""Stochastic gradient descent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.optim.sgd import sgd as sgd_update

from atoll.optimizers.base import Optimizer, client_rows, optimizers
from atoll.options import option
from atoll.tree import Params


@optimizers.register("sgd")
@dataclass(frozen=True, kw_only=True)
class SGD(Optimizer):
    """Gradient descent, with ``momentum`` above 0 that of Polyak (1964)."""

    entry_by_entry: ClassVar[bool] = True

    momentum: float = option(0.0, at_least=0)

    def init(self, params_K: Mapping[str, Tensor]) -> Params:
        if self.momentum == 0.0:
            return {}
        return {f"momentum.{name}": torch.zeros_like(p) for name, p in params_K.items()}

    @torch.no_grad()
    def step(
        self,
        params_K: Mapping[str, Tensor],
        grads_K: Mapping[str, Tensor],
        state_K: Mapping[str, Tensor],
        active: Tensor | None = None,
    ) -> None:
        names = list(params_K)
        buffers = [state_K[f"momentum.{n}"] for n in names] if self.momentum else []
        columns = [[params_K[n] for n in names], [grads_K[n] for n in names], buffers]
        if active is not None and not bool(active.all()):
            columns = [client_rows(tensors, active) for tensors in columns]
        params, grads, buffers = columns
        sgd_update(
            params,
            grads,
            list(buffers) if buffers else [None] * len(params),
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            lr=self.lr,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )
