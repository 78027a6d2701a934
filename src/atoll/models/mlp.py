"""Multi-layer perceptron: the baseline that ignores the graph."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from torch import Tensor

from atoll.cohort import Cohort
from atoll.models.base import (
    Model,
    add_bias,
    fan_in,
    glorot,
    models,
    without_biases,
)
from atoll.ops.dropout import dropout
from atoll.ops.ragged import ragged_linear
from atoll.options import option
from atoll.rng import CohortRng
from atoll.tree import Params

Start = Literal["fan-in", "glorot"]


def two_layers(
    features: int, hidden: int, classes: int, bias: bool, start: Start, rng: np.random.Generator
) -> Params:
    """Weights as ``torch.nn.Linear`` draws them, or as Glorot and Bengio do."""
    params = {
        "lin1.weight": fan_in(rng, features, features, hidden),
        "lin1.bias": fan_in(rng, features, hidden),
        "lin2.weight": fan_in(rng, hidden, hidden, classes),
        "lin2.bias": fan_in(rng, hidden, classes),
    }
    if start == "glorot":
        params |= {
            "lin1.weight": glorot(rng, features, hidden),
            "lin2.weight": glorot(rng, hidden, classes),
        }
    return params if bias else without_biases(params)


def hidden_layer(p: Mapping[str, Tensor], cohort: Cohort) -> Tensor:
    """``relu(X W1 + b1)``, ``[N, hidden]``."""
    return add_bias(cohort.linear(p["lin1.weight"]), p, "lin1.bias", cohort).relu_()


def apply_two_layers(
    p: Mapping[str, Tensor], cohort: Cohort, rate: float, rng: CohortRng | None
) -> Tensor:
    """``relu(X W1 + b1) W2 + b2`` with dropout on the hidden layer, ``[N, classes]``."""
    h = dropout(hidden_layer(p, cohort), rate, rng, cohort.sizes)
    return add_bias(ragged_linear(h, p["lin2.weight"], cohort.sizes), p, "lin2.bias", cohort)


@models.register("mlp")
@dataclass(frozen=True, kw_only=True)
class MLP(Model):
    """Two linear layers on the features alone: ``relu(X W1 + b1) W2 + b2``.

    ``bias = false`` leaves out b1 and b2; ``start`` is where weights start from.
    Shapes: ``lin1.weight [f, hidden]``, ``lin2.weight [hidden, classes]``.
    """

    on_features: ClassVar[tuple[str, ...]] = ("lin1.weight",)

    hidden: int = option(128, at_least=1)
    dropout: float = option(0.5, at_least=0, below=1)
    bias: bool = True
    start: Start = "fan-in"

    @property
    def sampled_hops(self) -> tuple[int, ...]:
        return (0,)

    def init(self, features: int, classes: int, rng: np.random.Generator) -> Params:
        return two_layers(features, self.hidden, classes, self.bias, self.start, rng)

    def apply(
        self, params_K: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None = None
    ) -> Tensor:
        return apply_two_layers(params_K, cohort, self.dropout, rng)

    def intermediate(self, params_K: Mapping[str, Tensor], cohort: Cohort) -> Tensor:
        """The hidden layer, activated ``[N, hidden]``."""
        return hidden_layer(params_K, cohort)


def bare_mlp(start: Start = "fan-in") -> MLP:
    """The MLP of GFL's experiments: 64 hidden units, no biases, no dropout."""
    return MLP(hidden=64, dropout=0.0, bias=False, start=start)
