"""Graph isomorphism network."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from atoll.cohort import Cohort
from atoll.cohort.collection import Collection
from atoll.cohort.targets import Targets
from atoll.models.base import (
    Model,
    ReadOut,
    add_bias,
    bias_and_relu,
    fan_in,
    models,
    read_out,
    spread,
    spread_at,
)
from atoll.ops.ragged import ragged_linear
from atoll.options import option
from atoll.rng import CohortRng
from atoll.tree import Params


def linear_layer(rng: np.random.Generator, name: str, inputs: int, outputs: int) -> Params:
    """Weight and bias as ``torch.nn.Linear`` draws them."""
    return {
        f"{name}.weight": fan_in(rng, inputs, inputs, outputs),
        f"{name}.bias": fan_in(rng, inputs, outputs),
    }


def gin_layer(
    p: Mapping[str, Tensor],
    name: str,
    h: Tensor,
    cohort: Cohort,
    rate: float,
    rng: CohortRng | None,
) -> Tensor:
    """``relu(relu((A h + h) W1 + b1) W2 + b2)``, each node's own row beside its neighbours' sum,
    then dropout."""
    h = cohort.operator("sum and own") @ h
    h = ragged_linear(h, p[f"{name}.lin1.weight"], cohort.sizes)
    h = bias_and_relu(h, p, f"{name}.lin1.bias", cohort)
    h = ragged_linear(h, p[f"{name}.lin2.weight"], cohort.sizes)
    return bias_and_relu(h, p, f"{name}.lin2.bias", cohort, rate, rng)


@dataclass(frozen=True, kw_only=True)
class GraphReader(Model):
    """A model that encodes nodes, reads small graphs out of their rows, and classifies these."""

    reads_out: ClassVar[bool] = True

    hidden: int = option(64, at_least=1)
    layers: int = option(3, at_least=1)
    dropout: float = option(0.5, at_least=0, below=1)
    readout: ReadOut = "sum"

    @abstractmethod
    def encode(self, p: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None) -> Tensor:
        """A row per node ``[N, hidden]``."""

    def apply(
        self, params_K: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None = None
    ) -> Tensor:
        return spread(*self._classified(params_K, cohort, rng))

    def apply_at(
        self,
        params_K: Mapping[str, Tensor],
        cohort: Cohort,
        targets: Targets,
        rng: CohortRng | None = None,
    ) -> Tensor:
        return spread_at(*self._classified(params_K, cohort, rng), targets)

    def embed(self, params_K: Mapping[str, Tensor], cohort: Cohort) -> Tensor:
        """What nodes were encoded as, read out where small graphs are held ``[N, hidden]``."""
        return spread(*read_out(self.encode(params_K, cohort, None), cohort, self.readout))

    def _classified(
        self, p: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None
    ) -> tuple[Tensor, Cohort | Collection]:
        """Read-out, ``relu(h W + b)``, dropout, a linear classifier, and what rows are of."""
        h, at = read_out(self.encode(p, cohort, rng), cohort, self.readout)
        h = ragged_linear(h, p["post.weight"], at.sizes)
        h = bias_and_relu(h, p, "post.bias", at, self.dropout, rng)
        h = ragged_linear(h, p["classifier.weight"], at.sizes)
        return add_bias(h, p, "classifier.bias", at), at


@models.register("gin")
@dataclass(frozen=True, kw_only=True)
class GIN(GraphReader):
    """Graph isomorphism network (Xu et al., 2019), in the form GCFL uses.

    A linear input layer; ``layers`` times ``h <- relu(MLP(h_i + sum_j h_j))`` over neighbours j,
    the MLP of two layers, with dropout; the ``readout`` of each graph's nodes (``sum``, or
    ``mean``); a hidden layer with relu and dropout; a linear classifier. Where nodes are
    classified there is no read-out.

    Shapes: ``input.weight [f, hidden]``; ``conv1.lin1.weight``, ``conv1.lin2.weight``, ... and
    ``post.weight [hidden, hidden]``; ``classifier.weight [hidden, classes]``. Of these, the
    convolutions are what GCFL shares.
    """

    on_features: ClassVar[tuple[str, ...]] = ("input.weight",)

    @property
    def sampled_hops(self) -> tuple[int, ...]:
        return (self.layers,)

    def init(self, features: int, classes: int, rng: np.random.Generator) -> Params:
        h = self.hidden
        params = linear_layer(rng, "input", features, h)
        for layer in range(1, self.layers + 1):
            params |= linear_layer(rng, f"conv{layer}.lin1", h, h)
            params |= linear_layer(rng, f"conv{layer}.lin2", h, h)
        params |= linear_layer(rng, "post", h, h)
        return params | linear_layer(rng, "classifier", h, classes)

    def encode(self, p: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None) -> Tensor:
        h = add_bias(cohort.linear(p["input.weight"]), p, "input.bias", cohort)
        for layer in range(1, self.layers + 1):
            h = gin_layer(p, f"conv{layer}", h, cohort, self.dropout, rng)
        return h
