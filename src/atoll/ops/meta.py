"""Gradients through gradient steps, for K clients at once (MAML, Finn et al., 2017)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.optimizers.steps import LossK, Steps, adapted, gradient, leaves
from atoll.tree import Params


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
    theta = leaves(params_K)
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
        return gradient(leaves(theta_hat), query)
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
