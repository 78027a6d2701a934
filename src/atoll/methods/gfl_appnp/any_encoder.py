"""Encoders of any kind: whole Jacobians by autograd, and the descent that uses them.

The two-layer MLP without biases, which the paper uses, has Jacobians of a simple form (see the
module ``encoder``). For any other model every entry travels, ``classes`` times as many numbers as
the model has: fine for small models. The equations are the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from atoll.cohort import Cohort
from atoll.methods.gfl_appnp.batches import training_points
from atoll.methods.gfl_appnp.encoder import mean_of_points
from atoll.models.base import Model
from atoll.models.mlp import MLP
from atoll.ops.ragged import segment_sum
from atoll.tree import Params, replicated


def is_bare(model: Model) -> bool:
    """Whether its Jacobians have the simple form."""
    return isinstance(model, MLP) and not model.bias


def outputs(model: Model, params: Params, cohort: Cohort) -> Tensor:
    """Every data point's output ``[N, c]``, by the weights that all clients share."""
    with torch.no_grad():
        return model.apply(replicated(params, cohort.k), cohort)


def like(params: Params, classes: int) -> Params:
    """What one client sends of ``grad h_j``: one gradient per class."""
    return {name: p.new_zeros(1).expand(classes, *p.shape) for name, p in params.items()}


def mean_jacobian(model: Model, params: Params, cohort: Cohort) -> tuple[Tensor, Params]:
    """``h_j [K, c]`` and ``grad h_j``, ``[K, c, ...]`` for each parameter.

    A client's mean depends on its own copy of the parameters alone, so one backward pass per class
    gives the gradients of all clients.
    """
    w_K = {name: p.requires_grad_() for name, p in replicated(params, cohort.k).items()}
    with torch.enable_grad():
        h_K = mean_of_points(model.apply(w_K, cohort), cohort)
        per_class = [
            torch.autograd.grad(h_K[:, c].sum(), list(w_K.values()), retain_graph=True)
            for c in range(h_K.shape[1])
        ]
    rows = zip(*per_class, strict=True)
    stacked = {name: torch.stack(row, dim=1) for name, row in zip(w_K, rows, strict=True)}
    return h_K.detach(), stacked


def descend_by_autograd(
    model: Model,
    params: Params,
    cohort: Cohort,
    context: Params,
    grad_C: Mapping[str, Tensor],
    weights: Tensor,
    lr: float,
) -> Params:
    """One step per row of ``weights [steps, N]`` with ``g = (y^ - y)(o_k grad h + grad C_k)``.

    ``grad_C`` has ``[K, c, ...]`` for each parameter; empty: zero (V2).
    """
    points = training_points(cohort)
    own, others = context["own"][points.batch, None], context["others"][points.batch]
    target = one_hot(points.y, cohort.classes).to(others.dtype)
    w_K = replicated(params, cohort.k)
    for share in weights:
        w_K = {name: p.requires_grad_() for name, p in w_K.items()}
        with torch.enable_grad():
            h = model.apply(w_K, points)
            v = share[:, None] * ((own * h + others).softmax(-1) - target).detach()
            gradient = torch.autograd.grad((v * own * h).sum(), list(w_K.values()))
        v_K = segment_sum(v, points.batch, points.k)
        w_K = {
            name: p.detach() - lr * (g + _product(v_K, grad_C[name]) if grad_C else g)
            for (name, p), g in zip(w_K.items(), gradient, strict=True)
        }
    return w_K


def _product(v_K: Tensor, jacobian_K: Tensor) -> Tensor:
    """``J^T v`` for each client: ``[K, c], [K, c, ...] -> [K, ...]``."""
    return torch.einsum("kc,kc...->k...", v_K, jacobian_K)
