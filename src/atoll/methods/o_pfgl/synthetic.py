"""A small graph with given class means of its features and propagated features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from atoll.device import of_numpy
from atoll.models.base import fan_in
from atoll.optimizers.adam import Adam
from atoll.tree import Params

_HIDDEN = 128
# Of every 50 steps the first 10 are taken on the adjacency, the others on the features.
_TURN, _ON_ADJACENCY = 50, 10


class Target(NamedTuple):
    """What each class ``[C]`` is to look like: mean and, if given, deviation ``[C, d]``, share."""

    mean: Tensor
    deviation: Tensor | None
    share: Tensor


class Synthetic(NamedTuple):
    """Features ``[m, f]``, weights of edges ``[m, m]``."""

    x: Tensor
    adjacency: Tensor


class Weights(NamedTuple):
    """What the parts of the objective count, and below what an edge is none."""

    alignment: float
    smoothness: float
    threshold: float


def fitted(
    target: Target,
    per_class: int,
    features: int,
    steps: int,
    lr_features: float,
    lr_adjacency: float,
    weights: Weights,
    rng: np.random.Generator,
) -> Synthetic:
    """``per_class`` nodes for every class, in the order of the classes, by descent with Adam."""
    dtype, m = target.mean.dtype, per_class * len(target.mean)
    x = {"x": of_numpy(rng.normal(size=(m, features))).to(dtype)}
    edge_net = {name: p.to(dtype) for name, p in first_edge_net(features, rng).items()}
    turns = [(Adam(lr=lr_adjacency), edge_net), (Adam(lr=lr_features), x)]
    state = [adam.init(params) for adam, params in turns]
    for step in range(steps):
        which = 0 if step % _TURN < _ON_ADJACENCY else 1
        adam, params = turns[which]
        leaves = {name: p.requires_grad_() for name, p in params.items()}
        loss = objective(x["x"], adjacency_of(x["x"], edge_net), target, per_class, weights)
        grads = torch.autograd.grad(loss, list(leaves.values()))
        for p in leaves.values():
            p.requires_grad_(False)
        adam.step(params, dict(zip(params, grads, strict=True)), state[which])
    with torch.no_grad():
        found = adjacency_of(x["x"], edge_net)
    return Synthetic(x["x"], torch.where(found < weights.threshold, 0.0, found))


def objective(
    x: Tensor, adjacency: Tensor, target: Target, per_class: int, weights: Weights
) -> Tensor:
    """``alignment sum_c (N_c/N) (MSE of means + MSE of deviations) + smoothness S``.

    ``S = sum_ij A_ij mean_f exp(-(x_i - x_j)^2 / 2) / sum_ij A_ij``. Means and deviations are those
    of ``[X, PX, ...]`` over a class's nodes; one node has no deviation.
    """
    a = torch.where(adjacency < weights.threshold, 0.0, adjacency)
    alike = torch.exp(-0.5 * (x[:, None] - x[None]) ** 2).mean(2)
    smoothness = (a * alike).sum() / a.sum().clamp(min=torch.finfo(a.dtype).tiny)
    hops = [x]
    while len(hops) * x.shape[1] < target.mean.shape[1]:
        hops.append(propagation(a) @ hops[-1])
    of_class = torch.cat(hops, dim=1).view(len(target.mean), per_class, -1)
    misfit = ((of_class.mean(1) - target.mean) ** 2).mean(1)
    if per_class > 1 and target.deviation is not None:
        misfit = misfit + ((of_class.std(1) - target.deviation) ** 2).mean(1)
    return weights.alignment * (target.share * misfit).sum() + weights.smoothness * smoothness


def propagation(adjacency: Tensor) -> Tensor:
    """``D^-1/2 (A + I) D^-1/2``."""
    loops = adjacency + torch.eye(len(adjacency), dtype=adjacency.dtype)
    scale = loops.sum(1).rsqrt()
    return scale[:, None] * loops * scale


def first_edge_net(features: int, rng: np.random.Generator) -> Params:
    """Three layers that make an edge's weight of its two ends, as torch's layers begin."""
    wide = 2 * features
    return {
        "left": fan_in(rng, wide, features, _HIDDEN),
        "right": fan_in(rng, wide, features, _HIDDEN),
        "bias1": fan_in(rng, wide, _HIDDEN),
        "scale1": torch.ones(_HIDDEN, dtype=torch.float64),
        "shift1": torch.zeros(_HIDDEN, dtype=torch.float64),
        "weight2": fan_in(rng, _HIDDEN, _HIDDEN, _HIDDEN),
        "bias2": fan_in(rng, _HIDDEN, _HIDDEN),
        "scale2": torch.ones(_HIDDEN, dtype=torch.float64),
        "shift2": torch.zeros(_HIDDEN, dtype=torch.float64),
        "weight3": fan_in(rng, _HIDDEN, _HIDDEN, 1),
        "bias3": fan_in(rng, _HIDDEN, 1),
    }


def adjacency_of(x: Tensor, p: Params) -> Tensor:
    """Weights of edges between 0 and 1, symmetric and without loops ``[m, m]``."""
    m = len(x)
    # The ends of a pair side by side times one matrix: each end times its half.
    h = ((x @ p["left"])[:, None] + (x @ p["right"])[None]).flatten(0, 1) + p["bias1"]
    h = _normalised(h, p["scale1"], p["shift1"]).relu()
    h = _normalised(h @ p["weight2"] + p["bias2"], p["scale2"], p["shift2"]).relu()
    scores = (h @ p["weight3"] + p["bias3"]).view(m, m)
    weight = ((scores + scores.T) / 2).sigmoid()
    return weight * (1 - torch.eye(m, dtype=weight.dtype))


def _normalised(h: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Batch normalisation over all pairs."""
    variance, mean = torch.var_mean(h, dim=0, correction=0)
    return (h - mean) / (variance + 1e-5).sqrt() * scale + shift
