"""What a server makes of the clients' average: a step of an optimizer of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from atoll.tree import Params

ServerOptimizer = Literal["none", "avgm", "adam", "yogi", "adagrad"]
# What a server's step is multiplied by if nothing else is said. An adaptive optimizer moves each
# parameter by about this much per round, avgm by this share of the clients' own move.
USUAL_LR = {"avgm": 1.0, "adam": 0.01, "yogi": 0.01, "adagrad": 0.01}


def first_moments(name: ServerOptimizer, model: Mapping[str, Tensor], tau: float) -> Params:
    """The server's memory before the first round: ``m = 0``, ``v = tau^2``."""
    moments = {f"mean.{n}": torch.zeros_like(p) for n, p in model.items()}
    if name != "avgm":
        moments |= {f"square.{n}": torch.full_like(p, tau**2) for n, p in model.items()}
    return moments


def server_step(
    name: ServerOptimizer,
    x: Mapping[str, Tensor],
    delta: Mapping[str, Tensor],
    moments: Mapping[str, Tensor],
    lr: float,
    beta1: float,
    beta2: float,
    tau: float,
) -> tuple[Params, Params]:
    """The next model and the next memory, given how far clients would move it (``delta``).

    ``avgm`` (Hsu et al., 2019) is ``m <- beta1 m + delta``, ``x <- x + lr m``. The others are
    Algorithm 2 of Reddi et al. (2021), which corrects no bias:
    ``m <- beta1 m + (1 - beta1) delta``, ``x <- x + lr m / (sqrt(v) + tau)``, with
    ``v <- v + delta^2`` (``adagrad``),
    ``v <- v - (1 - beta2) delta^2 sign(v - delta^2)`` (``yogi``), or
    ``v <- beta2 v + (1 - beta2) delta^2`` (``adam``).
    """
    model, after = {}, {}
    for n, d in delta.items():
        m = moments[f"mean.{n}"] * beta1 + (d if name == "avgm" else (1 - beta1) * d)
        after[f"mean.{n}"] = m
        if name == "avgm":
            model[n] = x[n] + lr * m
            continue
        v, d2 = moments[f"square.{n}"], d.square()
        if name == "adagrad":
            v = v + d2
        elif name == "yogi":
            v = v - (1 - beta2) * d2 * torch.sign(v - d2)
        else:
            v = beta2 * v + (1 - beta2) * d2
        after[f"square.{n}"] = v
        model[n] = x[n] + lr * m / (v.sqrt() + tau)
    return model, after
