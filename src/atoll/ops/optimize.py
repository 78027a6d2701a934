"""Optimizers over stacked parameters: each client has its own state and its own clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.optim.adam import adam as adam_update
from torch.optim.sgd import sgd as sgd_update

from atoll.errors import AtollError
from atoll.registry import Registry
from atoll.tree import Params

optimizers: Registry[Optimizer] = Registry("optimizer", "atoll.ops")


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """Two functions: the state for some parameters, and one step that updates both in place."""

    registered_name: ClassVar[str]
    lr: float = 0.01
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if self.lr <= 0:
            raise AtollError(f"optimizer.lr is {self.lr}; it must be positive.")
        if self.weight_decay < 0:
            raise AtollError(
                f"optimizer.weight_decay is {self.weight_decay}; it can't be negative."
            )

    def init(self, params_K: Mapping[str, Tensor]) -> Params:
        """State for parameters ``[K, ...]``; every leaf has a leading K axis."""
        raise NotImplementedError("abstract")

    def step(
        self,
        params_K: Mapping[str, Tensor],
        grads_K: Mapping[str, Tensor],
        state_K: Mapping[str, Tensor],
        active: Tensor | None = None,
    ) -> None:
        """Update in place. Clients outside ``active [K]`` keep parameters and state untouched."""
        raise NotImplementedError("abstract")


@optimizers.register("sgd")
@dataclass(frozen=True, kw_only=True)
class SGD(Optimizer):
    """Stochastic gradient descent, with momentum if asked for."""

    momentum: float = 0.0

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
            columns = [_rows(tensors, active) for tensors in columns]
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


@optimizers.register("adam")
@dataclass(frozen=True, kw_only=True)
class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015), fused; weight decay is added to the gradient, as in torch."""

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8

    def init(self, params_K: Mapping[str, Tensor]) -> Params:
        state: Params = {}
        for name, p in params_K.items():
            state[f"mean.{name}"] = torch.zeros_like(p)
            state[f"square.{name}"] = torch.zeros_like(p)
        k = next(iter(params_K.values())).shape[0]
        state["steps"] = torch.zeros(k, dtype=torch.float32)
        return state

    @torch.no_grad()
    def step(
        self,
        params_K: Mapping[str, Tensor],
        grads_K: Mapping[str, Tensor],
        state_K: Mapping[str, Tensor],
        active: Tensor | None = None,
    ) -> None:
        names = list(params_K)
        columns = [
            [params_K[n] for n in names],
            [grads_K[n] for n in names],
            [state_K[f"mean.{n}"] for n in names],
            [state_K[f"square.{n}"] for n in names],
        ]
        steps = state_K["steps"]
        together = active is None or bool(active.all())
        if together and bool((steps == steps[0]).all()):
            clocks = [steps[0].clone() for _ in names]
        else:
            chosen = torch.ones_like(steps, dtype=torch.bool) if active is None else active
            columns = [_rows(tensors, chosen) for tensors in columns]
            clocks = [clock.clone() for _ in names for clock in steps[chosen].unbind()]
        params, grads, means, squares = columns
        adam_update(
            params,
            grads,
            means,
            squares,
            [],
            clocks,
            fused=True,
            amsgrad=False,
            beta1=self.beta1,
            beta2=self.beta2,
            lr=self.lr,
            weight_decay=self.weight_decay,
            eps=self.eps,
            maximize=False,
        )
        steps += 1 if together or active is None else active.to(steps.dtype)


def _rows(tensors: list[Tensor], active: Tensor) -> list[Tensor]:
    """The active clients' slices, as views, so that an update in place reaches the stack."""
    return [t[i] for t in tensors for i in torch.nonzero(active).flatten().tolist()]


def descend(
    params_K: Params,
    loss: Callable[[Params], Tensor],
    optimizer: Optimizer,
    state_K: Params,
    epochs: int,
    active: Tensor | None = None,
) -> tuple[Params, Params, Tensor]:
    """``epochs`` full-batch steps for every client; one backward pass serves all.

    ``loss`` maps stacked parameters to one loss a client ``[K]``. Clients share nothing, so the
    gradient of the sum is each client's own gradient. Parameters are updated in place. Returns
    them, the optimizer's state, and the losses that training began with.
    """
    state_K = state_K or optimizer.init(params_K)
    leaves = {name: p.detach().requires_grad_() for name, p in params_K.items()}
    losses = []
    for _ in range(epochs):
        loss_K = loss(leaves)
        grads = torch.autograd.grad(loss_K.sum(), list(leaves.values()))
        optimizer.step(leaves, dict(zip(leaves, grads, strict=True)), state_K, active)
        losses.append(loss_K.detach())
    return {name: p.detach() for name, p in leaves.items()}, state_K, losses[0]
