"""Local training whose gradients a method corrects, and what is remembered of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from atoll.errors import AtollError
from atoll.methods.client import Client
from atoll.optimizers.base import Optimizer
from atoll.optimizers.sgd import SGD
from atoll.tree import Params

Correction = Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]


def descend_corrected(
    client: Client, model: Mapping[str, Tensor], correction: Correction, steps: int
) -> tuple[Params, Params]:
    """Local training from ``model`` on ``grad L_i(w) + correction(w)``, which the optimizer gets.

    Returns the client's new model, which is also kept in its state with the optimizer's, and the
    mean of the uncorrected gradients along the way.
    """
    descent = client.begin(client.owned(model))
    mean: Params = {}
    for _ in range(steps):
        g = client.gradient(descent.params)
        mean = {n: p / steps + mean.get(n, 0.0) for n, p in g.items()}
        extra = correction({n: p.detach() for n, p in descent.params.items()})
        descent.step({n: p + extra[n] for n, p in g.items()})
    w = descent.weights()
    client.state |= {"model": w, "optimizer": descent.state}
    return w, mean


def minus(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> Params:
    return {n: p - b[n] for n, p in a.items()}


def plus(a: Mapping[str, Tensor], b: Mapping[str, Tensor], times: float = 1.0) -> Params:
    return {n: p + times * b[n] for n, p in a.items()}


def refuse_literal(method: str, literal: bool) -> None:
    """How far clients moved is the mean of their models minus the old one, if weights sum to 1."""
    if literal:
        raise AtollError(
            f"{method} needs weights that sum to one, to tell how far clients have moved; leave "
            f"method.literal_weights false."
        )


def is_plain_sgd(optimizer: Optimizer) -> bool:
    """Whether a client's move is its learning rate times the sum of its gradients."""
    return isinstance(optimizer, SGD) and optimizer.momentum == 0.0


def zeros(params: Mapping[str, Tensor]) -> Params:
    return {n: torch.zeros_like(p) for n, p in params.items()}


def not_gradients(optimizer: str) -> str:
    """A remark where a client's move is taken for its gradients and is not."""
    return (
        f"a move by {optimizer} is not the sum of its gradients, so variates from moves misled "
        f"the clients; set method.variates=path or use the optimizer sgd."
    )
