"""Gradients through gradient steps, for K clients at once (MAML, Finn et al., 2017)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from atoll.cohort import Cohort
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
    (:meth:`atoll.ops.span.Span.steps`).
    """
    theta = dict(params_K)
    if not differentiable:
        theta = _leaves(theta)
    for _ in range(steps):
        grads = steps_of(gradient(theta, loss, differentiable=differentiable))
        theta = {n: p - rate * (grads[n] + weight_decay * p) for n, p in theta.items()}
        if not differentiable:
            theta = _leaves(theta)
    return theta if differentiable else {name: p.detach() for name, p in theta.items()}


def meta_gradient(
    params_K: Mapping[str, Tensor],
    support: LossK,
    query: LossK,
    rate: float,
    steps: int = 1,
    *,
    exact: bool = True,
    weight_decay: float = 0.0,
    steps_of: Steps = dict,
) -> Params:
    """The gradient of ``L_query(adapted(theta))`` with respect to ``theta`` ``[K, ...]``.

    Exact, it goes through the steps: for one of them it is
    ``(I - rate H_support(theta)) grad L_query(theta - rate grad L_support(theta))``, by automatic
    differentiation, without ever forming the Hessian. Otherwise the Hessians are left out (first
    order): the gradient of the query's loss at the adapted parameters.
    """
    theta = _leaves(params_K)
    theta_hat = adapted(
        theta,
        support,
        rate,
        steps,
        weight_decay=weight_decay,
        steps_of=steps_of,
        differentiable=exact,
    )
    if not exact:
        return gradient(_leaves(theta_hat), query)
    grads = torch.autograd.grad(query(theta_hat).sum(), list(theta.values()))
    return dict(zip(theta, grads, strict=True))


def on_queries(cohort: Cohort) -> Cohort:
    """The cohort with query nodes (those that validate) to train on."""

    def exchange() -> Cohort:
        return cohort.relabelled(
            [g.relabelled(y=g.y, train=g.val, val=g.train, name=g.name) for g in cohort.graphs]
        )

    return cohort.cached("on queries", exchange)


def has_nodes(cohort: Cohort) -> Tensor:
    """1 for each client with nodes to train on, else 0 ``[K]``."""
    return (cohort.labelled > 0).to(cohort.labelled.dtype)


def _leaves(params_K: Mapping[str, Tensor]) -> Params:
    return {name: p.detach().requires_grad_() for name, p in params_K.items()}
