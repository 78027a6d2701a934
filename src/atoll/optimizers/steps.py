"""Plain gradient steps that can themselves be differentiated, for K clients at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from atoll.tree import Params

LossK = Callable[[Params], Tensor]
Steps = Callable[[Params], Params]


def gradient(
    params_K: Mapping[str, Tensor], loss: LossK, *, differentiable: bool = False
) -> Params:
    """Each client's gradient of its own loss ``[K, ...]``.

    ``loss`` maps stacked parameters to one number per client ``[K]``; clients share nothing, so the
    gradient of the sum is each client's own.
    """
    params = dict(params_K)
    grads = torch.autograd.grad(
        loss(params).sum(), list(params.values()), create_graph=differentiable
    )
    return dict(zip(params, grads, strict=True))


def adapted(
    params_K: Mapping[str, Tensor],
    loss: LossK,
    rate: float,
    steps: int,
    *,
    weight_decay: float = 0.0,
    steps_of: Steps = dict,
    differentiable: bool = False,
) -> Params:
    """``theta <- theta - rate (grad L(theta) + weight_decay theta)``, some times over.

    If ``differentiable``, the result can be differentiated with respect to ``params_K``, which
    must require gradients. ``steps_of`` makes steps of gradients where they are not the same
    (:meth:`atoll.optimizers.descent.Descent.steps_of`).
    """
    theta = dict(params_K)
    if not differentiable:
        theta = leaves(theta)
    for _ in range(steps):
        grads = steps_of(gradient(theta, loss, differentiable=differentiable))
        theta = {n: p - rate * (grads[n] + weight_decay * p) for n, p in theta.items()}
        if not differentiable:
            theta = leaves(theta)
    return theta if differentiable else {name: p.detach() for name, p in theta.items()}


def leaves(params_K: Mapping[str, Tensor]) -> Params:
    return {name: p.detach().requires_grad_() for name, p in params_K.items()}
