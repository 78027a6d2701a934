"""FED-PUB's local training by a compiled kernel that passes over weights and masks once.

The objective in :mod:`atoll.methods.fed_pub.method` and ``client.descend`` are what it stands for:
there a dozen operations of torch pass over all clients' parameters one after the other.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from atoll.kernels import array, fit, kernels
from atoll.kernels.sharing import share
from atoll.methods.base import Method
from atoll.methods.client import Client, joined_trees
from atoll.ops.written_out import ProductGradient
from atoll.optimizers.adam import PER_ENTRY, Adam
from atoll.tree import Params, times

# As Adam names the moments of the two trees that it moves.
_MOMENTS = ("mean.0.{}", "square.0.{}", "mean.1.{}", "square.1.{}")
_NO_ENTRIES = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32)


class Penalties(NamedTuple):
    """``proximal |theta - theta_bar|^2 + l1 |mu|``, added to each client's loss."""

    proximal: float
    l1: float


class Trained(NamedTuple):
    """Weights and masks after training, ``theta`` and which entries it keeps (eq. 4)."""

    w: Params
    mu: Params
    theta: Params
    kept: Params


def trained_in_one_pass(
    method: Method, client: Client, given: Params, penalties: Penalties, threshold: float
) -> Trained | None:
    """Local training from ``given``, in the memory of the client's own weights and masks.

    None where it takes other ways: without masks or kernels, in mini-batches, or if the optimizer
    is not Adam with all clients at the same step. The losses themselves are not computed.
    """
    adam, mu, own = method.optimizer, client.state["mask"], client.state["weight"]
    task, data = method.task, (method.model, client.cohort, client.rng)
    if type(adam) is not Adam or not mu or task.passes(*data) is not None:
        return None
    w = {name: own[name] if name in mu else p.clone() for name, p in given.items()}
    state = client.state["optimizer"] if method.keep_optimizer else {}
    state = state or adam.init(joined_trees(w, mu))
    moments = (state[name] for name in state if name != "steps")
    if not fit(*given.values(), *w.values(), *mu.values(), *moments) or not adam.in_step(state):
        return None
    theta = times(given, mu)
    kept = {name: torch.empty_like(m, dtype=torch.bool) for name, m in mu.items()}
    for epoch in range(method.epochs):
        with torch.no_grad():
            found = task.written_out(method.model, theta, client.cohort, client.rng)
            if found is None:
                return None
            loss_K, pull = found
            grads = pull(torch.ones_like(loss_K))
        last = epoch + 1 == method.epochs
        limit = torch.tensor(threshold if last else 0.0, dtype=loss_K.dtype).item()
        step = partial(_step, adam, int(state["steps"][0]) + 1, penalties, limit)
        for name, mask in mu.items():
            moved = [w[name], mask, *(state[of.format(name)] for of in _MOMENTS), theta[name]]
            source = w[name] if epoch else given[name]
            step(grads[name], source, given[name], moved, kept[name])
        biases = {n: w[n] for n in w if n not in mu}
        pulled = {n: _pulled(grads[n], b, given[n], penalties) for n, b in biases.items()}
        adam.step(joined_trees(biases, {}), joined_trees(pulled, {}), state)
        theta |= biases
    client.state["optimizer"] = state
    return Trained(w, mu, theta, kept)


def _pulled(
    grad: Tensor | ProductGradient, bias: Tensor, given: Tensor, penalties: Penalties
) -> Tensor:
    """The gradient of a loss with the proximal term added."""
    assert isinstance(grad, Tensor)
    return grad + 2 * penalties.proximal * (bias - given)


def _step(
    adam: Adam,
    number: int,
    penalties: Penalties,
    threshold: float,
    grad: Tensor | ProductGradient,
    source: Tensor,
    given: Tensor,
    moved: list[Tensor],
    kept: Tensor,
) -> None:
    """One layer's weights, masks and moments."""
    width = given.shape[-1]
    nothing = np.empty((0, width), dtype=array(given).dtype)
    if isinstance(grad, Tensor):
        factors = (*_NO_ENTRIES, nothing[:, 0], nothing, array(grad).reshape(-1, width))
    else:
        factors = (*grad.matrix.arrays, array(grad.errors), nothing)
    stacks = tuple(array(t).reshape(-1) for t in (source, given, *moved))
    step = partial(
        kernels("masks").adam_of_masked, *factors, stacks, array(kept).reshape(-1),
        2 * penalties.proximal, penalties.l1, threshold, *adam.settings, number,
    )  # fmt: skip
    work = 2 * PER_ENTRY * given.numel() + 2.0 * len(factors[1]) * width
    share(step, given.numel() // width, work)
