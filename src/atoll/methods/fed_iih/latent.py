"""What clients say of their latent factors, and how the server compares it."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.models.disen import Disen
from atoll.rng import CohortRng
from atoll.tree import Params


def encoded(
    model: Disen, params_K: Params, cohort: Cohort, rng: CohortRng | None, layers: int
) -> tuple[Tensor, Tensor]:
    """Mean and logarithm of the variance of every node's factors, ``[N, factors, hidden]`` each."""
    h = model.disentangled(params_K, cohort, rng)
    shape = (len(h), model.factors, model.hidden)
    mean = model.convolved(h, cohort, rng, layers)
    log_var = model.convolved(h, cohort, rng, layers)
    return mean.view(shape), log_var.view(shape)


def divergences(mean: Tensor, log_var: Tensor) -> Tensor:
    """How far every two of m clients are apart in each factor, ``[m, F, d] -> [F, m, m]``.

    ``(KL(p || M) + KL(q || M)) / 2`` of Gaussians p and q with independent entries, where M is the
    Gaussian with the mean of their means and the mean of their variances.
    """
    var = log_var.exp()
    middle_mean = (mean[:, None] + mean[None]) / 2
    middle_var = (var[:, None] + var[None]) / 2
    to_middle = gaussian_kl(mean[:, None], log_var[:, None], middle_mean, middle_var.log()).sum(-1)
    return ((to_middle + to_middle.transpose(0, 1)) / 2).permute(2, 0, 1)


def gaussian_kl(mean: Tensor, log_var: Tensor, to_mean: Tensor, to_log_var: Tensor) -> Tensor:
    """``KL(N(mean, var) || N(to_mean, to_var))`` entry by entry."""
    spread = (log_var.exp() + (mean - to_mean) ** 2) / to_log_var.exp()
    return (to_log_var - log_var + spread - 1) / 2


def weights(mean: Tensor, log_var: Tensor, scale: float) -> Tensor:
    """Who mixes with whom in each factor: rows sum to one, ``[m, F, d] -> [F, m, m]``."""
    return torch.softmax(scale * (1 - divergences(mean, log_var) / math.log(2)), dim=2)


def mixed_by_factor(
    alpha: Tensor, model: Params, mix: Callable[[Tensor, Params, Params], Params], sent: Params
) -> Params:
    """Every client's mixture of models: slice k of each by ``alpha[k]``, the last bias uniformly.

    ``alpha [F, m, m]``; in the models of m clients, and in those they were ``sent``, factors lie
    one behind the other.
    """
    factors, m, _ = alpha.shape
    before = {"lin.weight": model["lin.weight"].shape[1], "lin.bias": 1, "classifier.weight": 1}

    def parted(params: Params) -> Params:
        return {name: params[name].reshape(m, n, factors, -1) for name, n in before.items()}

    def slice_of(parts: Params, k: int) -> Params:
        return {name: part[:, :, k] for name, part in parts.items()}

    parts, began = parted(model), parted(sent)
    slices = [mix(alpha[k], slice_of(parts, k), slice_of(began, k)) for k in range(factors)]
    last = "classifier.bias"
    uniform = torch.full_like(alpha[0], 1 / m)
    return {
        name: torch.stack([part[name] for part in slices], dim=2).reshape(model[name].shape)
        for name in before
    } | mix(uniform, {last: model[last]}, {last: sent[last]})
