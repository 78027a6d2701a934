"""Full-batch descent on K clients' weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.ops.own_rows import OwnRows
from atoll.ops.written_out import ProductGradient, differentiated_once
from atoll.optimizers.base import Optimizer
from atoll.optimizers.rows import stepped
from atoll.tree import Params


class Descent:
    """Steps of an optimizer, for K clients at once.

    ``params`` are where it is, and losses are to be computed on ``cohort`` until it ends: then
    ``weights`` are the model. Here parameters are the weights themselves; see
    :class:`atoll.optimizers.dual.DualDescent` for another place. Weights are updated in place.
    """

    def __init__(
        self, cohort: Cohort, params_K: Params, optimizer: Optimizer, state_K: Params | None = None
    ) -> None:
        self.cohort = cohort
        self.params = {name: p.detach().requires_grad_() for name, p in params_K.items()}
        self.optimizer = optimizer
        self.state = state_K or optimizer.init(params_K)

    def step(self, grads: Mapping[str, Tensor]) -> None:
        """One step, given gradients with respect to ``params``."""
        self.optimizer.step(self.params, grads, self.state)

    def steps_of(self, grads: Params) -> Params:
        """How plain gradient descent moves ``params``, given gradients with respect to them."""
        return grads

    def weight_gradient(self, grads: Params) -> Params:
        """Gradients with respect to the weights, given those with respect to ``params``."""
        return grads

    def weights(self) -> Params:
        """The model after all steps."""
        return {name: p.detach() for name, p in self.params.items()}


Slope = Callable[[Params], tuple[Tensor, Mapping[str, "Tensor | ProductGradient"]]]


def descend(
    params_K: Params,
    slope: Slope,
    optimizer: Optimizer,
    state_K: Params,
    epochs: int,
    active: Tensor | None = None,
    steps: Callable[[], Iterable[Tensor]] | None = None,
) -> tuple[Params, Params, Tensor]:
    """``epochs`` full-batch steps for every client; one backward pass serves all.

    Clients outside ``active [K]`` stay as they are. With ``steps`` an epoch has several steps, and
    each says who takes it.

    ``slope`` maps stacked parameters to one loss per client ``[K]`` and their gradients; where
    some were handed over as clients' own rows (:mod:`atoll.optimizers.rows`) these are of such
    rows. Parameters are updated in place. Returns them, the optimizer's state, and the losses that
    training began with.
    """
    state_K = state_K or optimizer.init(params_K)
    params_K, leaves, common, states = stepped(params_K, state_K, optimizer)
    losses = []
    for _ in range(epochs):
        for takers in (None,) if steps is None else steps():
            loss_K, grads = slope(params_K)
            who = _both(active, takers)
            if who is not None or not optimizer.takes_products:
                grads = {n: g if isinstance(g, Tensor) else g.made() for n, g in grads.items()}
            grads_K = {**common.no_gradients, **grads}
            optimizer.step(leaves | common.rows, grads_K, states, who)
            losses.append(loss_K.detach())
    trained = {n: params_K[n] if n in common.names else p for n, p in leaves.items()}
    return trained, state_K, losses[0]


def by_autograd(loss: Callable[[Params], Tensor]) -> Slope:
    """One loss per client ``[K]``, and its gradients: clients share nothing, so the gradient of
    the sum is each client's own gradient. The loss gets own rows where there are some."""

    def slope(params_K: Params) -> tuple[Tensor, Params]:
        leaves = {
            n: (p.own if isinstance(p, OwnRows) and p.compact else p).detach().requires_grad_()
            for n, p in params_K.items()
        }
        with differentiated_once():
            loss_K = loss(leaves)
        grads = torch.autograd.grad(loss_K.sum(), list(leaves.values()))
        return loss_K, dict(zip(leaves, grads, strict=True))

    return slope


def _both(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    """Clients that are in both ``[K]``; None is everybody."""
    if one is None or other is None:
        return other if one is None else one
    return one & other
