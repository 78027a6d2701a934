"""Simplified graph convolution."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from atoll.cohort import Cohort
from atoll.cohort.dual import Dual, FirstLayer
from atoll.models.base import Model, Pullback, add_bias, fan_in, models
from atoll.options import option
from atoll.rng import CohortRng
from atoll.tree import Params


@models.register("sgc")
@dataclass(frozen=True, kw_only=True)
class SGC(Model):
    """Logistic regression on propagated features (Wu et al., 2019): ``P^hops X W + b``.

    ``P^hops X`` is computed once. Shapes: ``weight [f, classes]``, ``bias [classes]``.
    """

    reach: ClassVar[int | None] = 0
    on_features: ClassVar[tuple[str, ...]] = ("weight",)

    hops: int = option(2, at_least=1)

    @property
    def first_layer(self) -> FirstLayer:
        return FirstLayer("weight", "gcn", self.hops)

    def init(self, features: int, classes: int, rng: np.random.Generator) -> Params:
        return {
            "weight": fan_in(rng, features, features, classes),
            "bias": fan_in(rng, features, classes),
        }

    def apply(
        self, params_K: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None = None
    ) -> Tensor:
        scores = cohort.linear(params_K["weight"], propagated="gcn", hops=self.hops)
        return add_bias(scores, params_K, "bias", cohort)

    def vjp(self, params_K: Mapping[str, Tensor], cohort: Cohort) -> tuple[Tensor, Pullback] | None:
        dual = cohort.inputs
        if not isinstance(dual, Dual):
            return None

        def pull(errors: Tensor) -> Params:
            return {"weight": errors, "bias": dual.by_client(errors).sum(1)}

        return self.apply(params_K, cohort), pull
