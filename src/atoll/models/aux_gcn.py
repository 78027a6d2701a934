"""A GCN whose nodes are also placed along an auxiliary vector."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from atoll.cohort import Cohort
from atoll.device import of_numpy
from atoll.models.base import Model, add_bias, fan_in, glorot, models
from atoll.ops.dropout import dropout
from atoll.ops.kernel import kernel_mean
from atoll.ops.ragged import ragged_linear
from atoll.options import option
from atoll.rng import CohortRng
from atoll.tree import Params


@models.register("aux-gcn")
@dataclass(frozen=True, kw_only=True)
class AuxGCN(Model):
    """Two graph convolutions, and means of nodes that look alike to a vector (FedAux, 2025).

    ``h = relu(P relu(P X W1 + b1) W2 + b2)``; ``s_i = cos(h_i, a)`` places node i on a line;
    ``k_ij = exp(-(s_i - s_j)^2 / sigma^2)``; ``z_i = sum_j k_ij h_j / sum_j k_ij``; scores are
    ``[h, z] W3 + b3``. Dropout follows each hidden layer, and ``s`` and ``z`` are made of what it
    leaves. Means are over all nodes of the client's graph, linked or not.

    Shapes: ``conv1.weight [f, hidden]``, ``conv2.weight [hidden, hidden]``, ``aux [hidden]``,
    ``classifier.weight [2 hidden, classes]``.
    """

    hidden: int = option(128, at_least=1)
    dropout: float = option(0.5, at_least=0, below=1)
    sigma: float = option(1.0, above=0)

    def init(self, features: int, classes: int, rng: np.random.Generator) -> Params:
        d = self.hidden
        return {
            "conv1.weight": glorot(rng, features, d),
            "conv1.bias": torch.zeros(d, dtype=torch.float64),
            "conv2.weight": glorot(rng, d, d),
            "conv2.bias": torch.zeros(d, dtype=torch.float64),
            "aux": of_numpy(rng.uniform(0.0, 1.0, d)),
            "classifier.weight": fan_in(rng, 2 * d, 2 * d, classes),
            "classifier.bias": fan_in(rng, 2 * d, classes),
        }

    def apply(
        self, params_K: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None = None
    ) -> Tensor:
        h = self._with_means(params_K, cohort, rng)
        h = ragged_linear(h, params_K["classifier.weight"], cohort.sizes)
        return add_bias(h, params_K, "classifier.bias", cohort)

    def embed(self, params_K: Mapping[str, Tensor], cohort: Cohort) -> Tensor:
        """``[h, z]``, what nodes are classified by ``[N, 2 hidden]``."""
        return self._with_means(params_K, cohort, None)

    def _with_means(self, p: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None) -> Tensor:
        h = add_bias(cohort.linear(p["conv1.weight"], propagated="gcn"), p, "conv1.bias", cohort)
        h = dropout(h.relu_(), self.dropout, rng, cohort.sizes)
        h = ragged_linear(cohort.operator("gcn") @ h, p["conv2.weight"], cohort.sizes)
        h = dropout(add_bias(h, p, "conv2.bias", cohort).relu_(), self.dropout, rng, cohort.sizes)
        s = cosine_similarity(h, p["aux"].index_select(0, cohort.batch), dim=1)
        return torch.cat([h, kernel_mean(s, h, self.sigma, cohort.sizes)], dim=1)
