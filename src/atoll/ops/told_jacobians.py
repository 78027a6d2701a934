"""What clients tell of their Jacobians, and what the server makes of it for their neighbours."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.ops.compensated import Full, Structured
from atoll.ops.encoder import Points, mean_of_points, mix_moments, moments
from atoll.rng import CohortRng
from atoll.tree import Params, Ragged, Tree, prefixed, under

# ``exact``: moments and units (see :mod:`atoll.ops.encoder`); ``noisy``: every entry, with noise.
Form = Literal["exact", "noisy", "none"]


def blank(model: Params, form: Form) -> Tree:
    """What one client tells."""
    first, second = model["lin1.weight"], model["lin2.weight"]
    (features, hidden), classes = first.shape, second.shape[1]
    if form == "exact":
        return {
            "jacobian/numbers": Ragged(torch.zeros(0, dtype=torch.int32), (0,)),
            "jacobian/moments": Ragged(first.new_zeros(0, hidden), (0,)),
            "jacobian/units": second.new_zeros(hidden),
        }
    if form == "noisy":
        return {
            "jacobian/first": first.new_zeros(1).expand(classes, features, hidden),
            "jacobian/second": second.new_zeros(classes, hidden, classes),
        }
    return {}


def told(points: Points, cohort: Cohort, model: Params, form: Form, rng: CohortRng) -> Tree:
    """What K clients tell of the Jacobian of the mean of their points."""
    if form == "none":
        return {}
    numbers, rows = moments(points.units, cohort)
    units_K = mean_of_points(points.units, cohort)
    if form == "exact":
        return {"jacobian/numbers": numbers, "jacobian/moments": rows, "jacobian/units": units_K}
    each_its_own = torch.eye(cohort.k, dtype=cohort.dtype)
    moments_K = mix_moments(each_its_own, numbers, rows, cohort.features)
    full = Structured(moments_K, units_K, model["lin2.weight"]).in_full()
    return prefixed("jacobian", _with_noise(full, rng))


def told_moments(body: Tree) -> tuple[Ragged, Ragged]:
    """Feature numbers and rows of the clients' moments."""
    numbers, rows = body["jacobian/numbers"], body["jacobian/moments"]
    assert isinstance(numbers, Ragged)
    assert isinstance(rows, Ragged)
    return numbers, rows


def mixed(weights: Tensor, body: Tree, model: Params, form: Form) -> Params:
    """``sum_j weights[t, j] J_j`` for each t, in the form it was told in."""
    if form == "none":
        return {}
    if form == "noisy":
        parts = under(body, "jacobian")
        return {name: torch.tensordot(weights, part, dims=1) for name, part in parts.items()}
    units = body["jacobian/units"]
    assert isinstance(units, Tensor)
    features = model["lin1.weight"].shape[0]
    return {
        "moments": mix_moments(weights, *told_moments(body), features),
        "units": weights @ units,
    }


def _with_noise(jacobian: Full, rng: CohortRng) -> Params:
    """Every entry with a standard normal number added, drawn client by client."""
    for k, stream in enumerate(rng.streams):
        for part in (jacobian.first_K[k], jacobian.second_K[k]):
            dtype = "float64" if part.dtype == torch.float64 else "float32"
            noise = stream.standard_normal(tuple(part.shape), dtype=dtype)  # type: ignore[call-overload]
            part += torch.from_numpy(noise)
    return {"first": jacobian.first_K, "second": jacobian.second_K}
