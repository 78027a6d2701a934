"""What clients send of their Jacobians, and what the server makes of it for their neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from atoll.device import of_numpy
from atoll.leaves import RowsLike
from atoll.methods.client import Client
from atoll.methods.gfl_appnp.aggregate_noise import noise_jacobian
from atoll.methods.gfl_appnp.compensation import Full, Jacobian, Structured, Sum
from atoll.methods.gfl_appnp.encoder import Points, mean_of_points, mix_moments, moments
from atoll.rng import CohortRng
from atoll.tree import Params

# ``exact``: moments and units (see the module ``encoder``); ``noisy``: every entry, with noise.
Form = Literal["exact", "noisy", "none"]
# A Jacobian as it travels: plain tensors and rows of a table by name, nothing for ``none``.
Parts: TypeAlias = Mapping[str, Any]


def like(model: Params, form: Form) -> dict[str, Any]:
    """What one client sends of ``grad h_j``."""
    first, second = model["lin1.weight"], model["lin2.weight"]
    (features, hidden), classes = first.shape, second.shape[1]
    if form == "exact":
        row, units = first.new_zeros(hidden), second.new_zeros(hidden)
        return {"moments": RowsLike(row, length=features), "units": units}
    if form == "noisy":
        return {
            "first": first.new_zeros(1).expand(classes, features, hidden),
            "second": second.new_zeros(classes, hidden, classes),
        }
    return {}


def sent(points: Points, client: Client, model: Params, form: Form, scale: float) -> dict[str, Any]:
    """What K clients send of ``grad h_j``, the Jacobian of the mean of their points.

    ``scale`` is the deviation of the noise, where there is noise.
    """
    if form == "none":
        return {}
    cohort = client.cohort
    moments_K, units_K = moments(points.units, cohort), mean_of_points(points.units, cohort)
    if form == "exact":
        return {"moments": moments_K, "units": units_K}
    each_its_own = torch.eye(cohort.k, dtype=cohort.dtype)
    whole_K = mix_moments(each_its_own, moments_K, cohort.features)
    full = Structured(whole_K, units_K, model["lin2.weight"]).in_full()
    return in_form({"first": full.first_K, "second": full.second_K}, form, client.rng, scale)


def mixed(weights: Tensor, jacobian: Parts, model: Params) -> Params:
    """``sum_j weights[t, j] grad h_j`` for each t, in the form that was sent."""
    if "moments" not in jacobian:
        return {name: torch.tensordot(weights, part, dims=1) for name, part in jacobian.items()}
    features = model["lin1.weight"].shape[0]
    return {
        "moments": mix_moments(weights, jacobian["moments"], features),
        "units": weights @ jacobian["units"],
    }


def received(gradient: Parts, model: Params) -> Jacobian | None:
    """``grad C_k`` as clients were sent it; None where gradients are left out."""
    if not gradient:
        return None
    if "moments" not in gradient:
        return Full(gradient["first"], gradient["second"])
    exact = Structured(gradient["moments"], gradient["units"], model["lin2.weight"])
    if "noise_first" not in gradient:
        return exact
    return Sum(exact, noise_jacobian(gradient, features=len(model["lin1.weight"])))


def in_form(jacobian_K: Params, form: Form, rng: CohortRng, scale: float) -> Params:
    """Whole Jacobians as clients send them: all entries, with noise on them, or none."""
    if form == "none":
        return {}
    if form == "noisy":
        # Client by client, all of one's parts before the next client's: so its stream has it.
        for k, stream in enumerate(rng.streams):
            for part in jacobian_K.values():
                _add_noise(part[k], stream, scale)
    return jacobian_K


def with_noise(values_K: Tensor, rng: CohortRng, scale: float) -> Tensor:
    """K clients' numbers with normal noise added, in place."""
    for values, stream in zip(values_K, rng.streams, strict=True):
        _add_noise(values, stream, scale)
    return values_K


def _add_noise(values: Tensor, stream: np.random.Generator, scale: float) -> None:
    dtype = "float64" if values.dtype == torch.float64 else "float32"
    noise = stream.standard_normal(tuple(values.shape), dtype=dtype)  # type: ignore[call-overload]
    values += scale * of_numpy(noise)
