"""GraphSAGE with the mean aggregator."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from atoll.cohort import Cohort
from atoll.models.base import Model, add_bias, fan_in, models, without_biases
from atoll.ops.dropout import dropout
from atoll.ops.ragged import ragged_linear
from atoll.options import option
from atoll.rng import CohortRng
from atoll.tree import Params


@models.register("sage")
@dataclass(frozen=True, kw_only=True)
class SAGE(Model):
    """Two GraphSAGE layers with mean aggregation (Hamilton et al., 2017).

    Each layer is ``M H Wn + b + H Ws`` with M the mean over neighbours; relu and dropout between.
    ``bias = false`` leaves out b.
    Shapes: ``sage1.neighbour, sage1.self [f, hidden]``, ``sage2.* [hidden, classes]``.
    """

    on_features: ClassVar[tuple[str, ...]] = ("sage1.neighbour", "sage1.self")

    hidden: int = option(128, at_least=1)
    dropout: float = option(0.5, at_least=0, below=1)
    bias: bool = True

    @property
    def sampled_hops(self) -> tuple[int, ...]:
        return (1, 2)

    def init(self, features: int, classes: int, rng: np.random.Generator) -> Params:
        params = {
            "sage1.neighbour": fan_in(rng, features, features, self.hidden),
            "sage1.bias": fan_in(rng, features, self.hidden),
            "sage1.self": fan_in(rng, features, features, self.hidden),
            "sage2.neighbour": fan_in(rng, self.hidden, self.hidden, classes),
            "sage2.bias": fan_in(rng, self.hidden, classes),
            "sage2.self": fan_in(rng, self.hidden, self.hidden, classes),
        }
        return params if self.bias else without_biases(params)

    def apply(
        self, params_K: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None = None
    ) -> Tensor:
        p = params_K
        h = dropout(self.intermediate(p, cohort), self.dropout, rng, cohort.sizes)
        neighbours = ragged_linear(h, p["sage2.neighbour"], cohort.sizes)
        own = ragged_linear(h, p["sage2.self"], cohort.sizes)
        return add_bias(cohort.operator("mean") @ neighbours + own, p, "sage2.bias", cohort)

    def intermediate(self, params_K: Mapping[str, Tensor], cohort: Cohort) -> Tensor:
        """The first layer's output, activated ``[N, hidden]``."""
        p = params_K
        h = cohort.linear(p["sage1.neighbour"], propagated="mean") + cohort.linear(p["sage1.self"])
        return add_bias(h, p, "sage1.bias", cohort).relu_()
