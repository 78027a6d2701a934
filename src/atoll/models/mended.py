"""A model that sees mended graphs where its task sees the original ones."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from atoll.cohort import Cohort
from atoll.models.base import Model
from atoll.ops.mending import MendedCohort
from atoll.rng import CohortRng
from atoll.tree import Params


@dataclass(frozen=True, kw_only=True)
class OnMended(Model):
    """``model`` applied to mended graphs; what it says of generated nodes is dropped."""

    model: Model
    mended: MendedCohort

    def init(self, features: int, classes: int, rng: np.random.Generator) -> Params:
        return self.model.init(features, classes, rng)

    def apply(
        self, params_K: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None = None
    ) -> Tensor:
        return self.model.apply(params_K, self.mended, rng).index_select(0, self.mended.real)

    def nll(
        self, params_K: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None = None
    ) -> Tensor:
        """On the mended graphs themselves: no generated node is one to train on."""
        return self.model.nll(params_K, self.mended, rng)
