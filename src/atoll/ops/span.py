"""Gradient descent in the dual of few nodes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.cohort.dual import Dual, dual_of
from atoll.models.base import Model
from atoll.ops.optimize import SGD
from atoll.tree import Params


def span_of(model: Model, cohort: Cohort, *splits: str) -> Cohort | None:
    layer = model.first_layer
    return None if layer is None else dual_of(cohort, layer, model.reach, *splits)


class Walk:
    """Gradient descent in a span: ``params`` are where it is, ``arrive`` gives the weights."""

    def __init__(self, span: Cohort, params_K: Params, optimizer: SGD) -> None:
        assert isinstance(span.inputs, Dual)
        self._span = span.inputs
        self._start = params_K
        self._rate = optimizer.lr
        self._keep = 1.0 - optimizer.lr * optimizer.weight_decay
        self._kept = 1.0
        entered = self._span.enter(params_K)
        self.params = {n: p.detach().requires_grad_() for n, p in entered.items()}
        self._shift = torch.zeros_like(self.params[self._span.weight])

    @torch.no_grad()
    def step(self, grads: Mapping[str, Tensor]) -> None:
        for name, move in self._span.steps(grads).items():
            self.params[name].mul_(self._keep).sub_(move, alpha=self._rate)
        self._shift.mul_(self._keep).sub_(grads[self._span.weight], alpha=self._rate)
        self._kept *= self._keep

    def arrive(self) -> Params:
        """The parameters after all steps; reuses the memory of those it began with."""
        first = self._span.weight
        weight_K = self._span.moved(self._start[first].detach(), self._kept, self._shift)
        return {n: weight_K if n == first else p.detach() for n, p in self.params.items()}


def descend_in_span(
    model: Model, span: Cohort, params_K: Params, optimizer: SGD, epochs: int
) -> tuple[Walk, Tensor]:
    """``epochs`` steps on each client's cross-entropy: where they lead, and the losses before."""
    walk = Walk(span, params_K, optimizer)
    with torch.no_grad():
        loss_K = model.nll(walk.params, span)
    for _ in range(epochs):
        walk.step(model.nll_gradient(walk.params, span))
    return walk, loss_K
