"""Graph attention multi-layer perceptron."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.models.base import Model, add_bias, fan_in, glorot, models
from atoll.ops.dropout import dropout
from atoll.ops.ragged import ragged_linear
from atoll.options import option
from atoll.rng import CohortRng
from atoll.tree import Params


@models.register("gamlp")
@dataclass(frozen=True, kw_only=True)
class GAMLP(Model):
    """An MLP on hops of features, each node weighing its hops itself (Zhang et al., 2022).

    ``X_k = P^k X`` for k = 0 to ``hops`` are computed once. With jumping-knowledge attention, node
    i weighs hop k by ``w_ik = softmax_k(sigmoid(a . X_k[i] + sum_j r_j . X_j[i] + b))``, and an MLP
    of ``layers`` layers classifies ``sum_k w_ik X_k[i]``. Hidden layers have a PReLU, whose slope
    is learnt, and dropout.

    The mixture enters a linear layer, so hops are multiplied by that layer's weights first and
    mixed then: ``sum_k w_ik (X_k W1)[i]``, which keeps sparse features sparse.

    FedGTA's released code reads the attention scores, listed hop by hop, as if they were listed
    node by node, so that a node is weighed by scores of other nodes and the result depends on the
    order of nodes. Here every node has its own.

    Shapes: ``attention.own [f, 1]``, ``attention.reference [f, hops + 1]``, ``lin1.weight
    [f, hidden]``, the last ``lin.weight [hidden, classes]``.
    """

    reach: ClassVar[int | None] = 0

    hidden: int = option(64, at_least=1)
    hops: int = option(3, at_least=1)
    layers: int = option(3, at_least=2)
    dropout: float = option(0.5, at_least=0, below=1)

    def init(self, features: int, classes: int, rng: np.random.Generator) -> Params:
        inputs = features * (self.hops + 2)
        params = {
            "attention.own": fan_in(rng, inputs, features, 1),
            "attention.reference": fan_in(rng, inputs, features, self.hops + 1),
            "attention.bias": fan_in(rng, inputs, 1),
            "slope": torch.full((1,), 0.25, dtype=torch.float64),
        }
        widths = [features, *[self.hidden] * (self.layers - 1), classes]
        for i, (wide, narrow) in enumerate(pairwise(widths), start=1):
            # Glorot's, times the gain of a ReLU.
            params[f"lin{i}.weight"] = 2**0.5 * glorot(rng, wide, narrow)
            params[f"lin{i}.bias"] = torch.zeros(narrow, dtype=torch.float64)
        return params

    def apply(
        self, params_K: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None = None
    ) -> Tensor:
        h = self._hidden(params_K, cohort, rng)
        last = f"lin{self.layers}"
        h = ragged_linear(h, params_K[f"{last}.weight"], cohort.sizes)
        return add_bias(h, params_K, f"{last}.bias", cohort)

    def intermediate(self, params_K: Mapping[str, Tensor], cohort: Cohort) -> Tensor:
        """The last hidden layer, activated ``[N, hidden]``."""
        return self._hidden(params_K, cohort, None)

    def _hidden(self, p: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None) -> Tensor:
        h = add_bias(self._mixed_hops(p, cohort), p, "lin1.bias", cohort)
        h = dropout(_prelu(h, p["slope"], cohort), self.dropout, rng, cohort.sizes)
        for i in range(2, self.layers):
            h = ragged_linear(h, p[f"lin{i}.weight"], cohort.sizes)
            h = _prelu(add_bias(h, p, f"lin{i}.bias", cohort), p["slope"], cohort)
            h = dropout(h, self.dropout, rng, cohort.sizes)
        return h

    def _mixed_hops(self, p: Mapping[str, Tensor], cohort: Cohort) -> Tensor:
        """``sum_k w_ik (X_k W1)[i]``, ``[N, hidden]``."""
        first, own, references = (
            p[name] for name in ("lin1.weight", "attention.own", "attention.reference")
        )
        hops, scores = [], []
        reference: Tensor | float = 0.0
        for k in range(self.hops + 1):
            weight_K = torch.cat([first, own, references[:, :, k : k + 1]], dim=2)
            product = cohort.linear(weight_K, "gcn", k) if k else cohort.linear(weight_K)
            hops.append(product[:, : self.hidden])
            scores.append(product[:, self.hidden])
            reference = reference + product[:, self.hidden + 1]
        common = reference + p["attention.bias"].index_select(0, cohort.batch).squeeze(1)
        w = (torch.stack(scores, dim=1) + common[:, None]).sigmoid().softmax(dim=1)
        return torch.stack([w[:, k, None] * h for k, h in enumerate(hops)]).sum(0)


def _prelu(h: Tensor, slope_K: Tensor, cohort: Cohort) -> Tensor:
    return h.clamp(min=0) + slope_K.index_select(0, cohort.batch) * h.clamp(max=0)
