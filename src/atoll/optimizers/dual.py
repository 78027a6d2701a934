"""Gradient descent in the dual of few nodes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.cohort.dual import Dual
from atoll.optimizers.base import Optimizer
from atoll.optimizers.descent import Descent
from atoll.tree import Params


class DualDescent(Descent):
    """Plain gradient descent on the outputs of a first layer (:class:`atoll.cohort.dual.Dual`).

    Weights are made when it has ended, in the memory of those it began with. Step t decays by
    ``keep = 1 - lr weight_decay``, so after all steps ``W = keep^T W_0 + X^T S`` with
    ``S <- keep S - lr G``.
    """

    def __init__(self, cohort: Cohort, params_K: Params, optimizer: Optimizer) -> None:
        assert isinstance(cohort.inputs, Dual)
        self._dual = cohort.inputs
        super().__init__(cohort, self._dual.enter(params_K), optimizer)
        self._start = params_K[self._dual.weight]
        self._keep = 1.0 - optimizer.lr * optimizer.weight_decay
        self._kept = 1.0
        self._shift = torch.zeros_like(self.params[self._dual.weight])

    @torch.no_grad()
    def step(self, grads: Mapping[str, Tensor]) -> None:
        rate = self.optimizer.lr
        for name, move in self._dual.steps(grads).items():
            self.params[name].mul_(self._keep).sub_(move, alpha=rate)
        self._shift.mul_(self._keep).sub_(grads[self._dual.weight], alpha=rate)
        self._kept *= self._keep

    def steps_of(self, grads: Params) -> Params:
        return self._dual.steps(grads)

    def weight_gradient(self, grads: Params) -> Params:
        return self._dual.leave(grads)

    def weights(self) -> Params:
        first = self._dual.weight
        weight_K = self._dual.moved(self._start.detach(), self._kept, self._shift)
        return {n: weight_K if n == first else p.detach() for n, p in self.params.items()}
