"""Disentangled graph convolutions."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor
from torch.nn.functional import leaky_relu

from atoll.cohort import Cohort
from atoll.models.base import Model, add_bias, fan_in, models
from atoll.ops.dropout import dropout
from atoll.ops.ragged import ragged_linear
from atoll.ops.routing import Sides, routed
from atoll.options import option
from atoll.rng import CohortRng
from atoll.tree import Params


@models.register("disen")
@dataclass(frozen=True, kw_only=True)
class Disen(Model):
    """Neighbours routed to factors (DisenGCN, Ma et al., 2019), as FedIIH (2025) stacks them.

    ``x_i = leakyrelu(X W + b)``, split into ``factors`` parts of ``hidden``; then ``layers`` of
    :func:`atoll.ops.routing.routed`, each with a leaky ReLU; a linear classifier of all parts.
    Dropout follows each hidden layer. Convolutions have no parameters. Edge weights are not used.

    Shapes: ``lin.weight [f, factors * hidden]``, ``classifier.weight [factors * hidden, classes]``.
    """

    factors: int = option(2, at_least=1)
    hidden: int = option(64, at_least=1)
    layers: int = option(2, at_least=1)
    routings: int = option(6, at_least=1)
    dropout: float = option(0.35, at_least=0, below=1)

    def init(self, features: int, classes: int, rng: np.random.Generator) -> Params:
        d = self.factors * self.hidden
        return {
            # Within the root of the outputs' number, as DisenGCN's code starts.
            "lin.weight": fan_in(rng, d, features, d),
            "lin.bias": fan_in(rng, d, d),
            "classifier.weight": fan_in(rng, d, d, classes),
            "classifier.bias": fan_in(rng, d, classes),
        }

    def apply(
        self, params_K: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None = None
    ) -> Tensor:
        h = self.disentangled(params_K, cohort, rng)
        h = ragged_linear(h, params_K["classifier.weight"], cohort.sizes)
        return add_bias(h, params_K, "classifier.bias", cohort)

    def embed(self, params_K: Mapping[str, Tensor], cohort: Cohort) -> Tensor:
        """All factors of each node ``[N, factors * hidden]``."""
        return self.disentangled(params_K, cohort, None)

    def disentangled(
        self, p: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None
    ) -> Tensor:
        """What is classified, ``[N, factors * hidden]``; with dropout where ``rng`` is given."""
        h = leaky_relu(add_bias(cohort.linear(p["lin.weight"]), p, "lin.bias", cohort))
        h = dropout(h, self.dropout, rng, cohort.sizes)
        return self.convolved(h, cohort, rng, self.layers)

    def convolved(self, h: Tensor, cohort: Cohort, rng: CohortRng | None, layers: int) -> Tensor:
        """``layers`` further convolutions, ``[N, factors * hidden]`` before and after."""
        sides = cohort.cached("edges by node", lambda: Sides(cohort.edges, tuple(cohort.sizes)))
        for _ in range(layers):
            u = routed(h.view(len(h), self.factors, -1), sides, self.routings)
            h = dropout(leaky_relu(u).flatten(1), self.dropout, rng, cohort.sizes)
        return h
