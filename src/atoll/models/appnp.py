"""Predict then propagate."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.models.base import Model, models
from atoll.models.mlp import Start, apply_two_layers, two_layers
from atoll.options import option
from atoll.rng import CohortRng
from atoll.tree import Params

_DENSE_UP_TO = 1_000


@models.register("appnp")
@dataclass(frozen=True, kw_only=True)
class APPNP(Model):
    """An MLP whose predictions spread by personalised PageRank (Gasteiger et al., 2019).

    ``Z0 = MLP(X)``, then ``hops`` times ``Z <- (1 - alpha) P Z + alpha Z0``. ``bias = false``
    leaves the MLP without biases; ``start`` is where its weights start from.
    Shapes: ``lin1.weight [f, hidden]``, ``lin2.weight [hidden, classes]``.
    """

    on_features: ClassVar[tuple[str, ...]] = ("lin1.weight",)

    hidden: int = option(64, at_least=1)
    dropout: float = option(0.5, at_least=0, below=1)
    hops: int = option(10, at_least=1)
    alpha: float = option(0.1, at_least=0, at_most=1)
    bias: bool = True
    start: Start = "fan-in"

    @property
    def sampled_hops(self) -> tuple[int, ...]:
        return (self.hops,)

    def init(self, features: int, classes: int, rng: np.random.Generator) -> Params:
        return two_layers(features, self.hidden, classes, self.bias, self.start, rng)

    def apply(
        self, params_K: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None = None
    ) -> Tensor:
        start = apply_two_layers(params_K, cohort, self.dropout, rng)
        if len(start) > _DENSE_UP_TO:
            return self._spread(start, cohort)
        # A small graph's propagation is one matrix: hops of a handful of columns are all overhead.
        key = f"appnp {self.alpha} {self.hops}"
        return cohort.cached(key, lambda: self._whole(cohort)) @ start

    def _whole(self, cohort: Cohort) -> Tensor:
        return self._spread(torch.eye(sum(cohort.sizes), dtype=cohort.dtype), cohort)

    def _spread(self, start: Tensor, cohort: Cohort) -> Tensor:
        z = start
        for _ in range(self.hops):
            z = (1 - self.alpha) * (cohort.operator("gcn") @ z) + self.alpha * start
        return z
