"""Graph attention network."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import elu, leaky_relu

from atoll.cohort import Cohort
from atoll.models.base import Model, add_bias, glorot, models, without_biases
from atoll.ops.dropout import dropout
from atoll.ops.ragged import ragged_linear, segment_softmax, segment_sum
from atoll.options import option
from atoll.rng import CohortRng
from atoll.tree import Params

_NEGATIVE_SLOPE = 0.2


@models.register("gat")
@dataclass(frozen=True, kw_only=True)
class GAT(Model):
    """Two attention layers (Velickovic et al., 2018): several heads, then one.

    ``e_ij = leakyrelu(a_s . W h_j + a_t . W h_i)``, softmax over the neighbours j of i and i
    itself, weighted sum of ``W h_j``; heads concatenated, elu between the layers. Dropout follows
    the hidden layer (attention coefficients are not dropped). ``bias = false`` leaves out biases.
    Edge weights are not used: attention finds its own.

    Shapes: ``gat1.weight [f, heads * hidden]``, ``gat1.source, gat1.target [heads, hidden]``,
    ``gat2.weight [heads * hidden, classes]``.
    """

    hidden: int = option(8, at_least=1)
    heads: int = option(8, at_least=1)
    dropout: float = option(0.5, at_least=0, below=1)
    bias: bool = True

    @property
    def sampled_hops(self) -> tuple[int, ...]:
        return (2,)

    def init(self, features: int, classes: int, rng: np.random.Generator) -> Params:
        width = self.heads * self.hidden
        params = {
            "gat1.weight": glorot(rng, features, width),
            "gat1.source": glorot(rng, self.heads, self.hidden),
            "gat1.target": glorot(rng, self.heads, self.hidden),
            "gat1.bias": torch.zeros(width, dtype=torch.float64),
            "gat2.weight": glorot(rng, width, classes),
            "gat2.source": glorot(rng, 1, classes),
            "gat2.target": glorot(rng, 1, classes),
            "gat2.bias": torch.zeros(classes, dtype=torch.float64),
        }
        return params if self.bias else without_biases(params)

    def apply(
        self, params_K: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None = None
    ) -> Tensor:
        p = params_K
        h = dropout(self.intermediate(p, cohort), self.dropout, rng, cohort.sizes)
        h = ragged_linear(h, p["gat2.weight"], cohort.sizes)
        h = attend(h, p["gat2.source"], p["gat2.target"], cohort)
        return add_bias(h, p, "gat2.bias", cohort)

    def intermediate(self, params_K: Mapping[str, Tensor], cohort: Cohort) -> Tensor:
        """The first layer's output, activated ``[N, heads * hidden]``."""
        p = params_K
        h = attend(cohort.linear(p["gat1.weight"]), p["gat1.source"], p["gat1.target"], cohort)
        return elu(add_bias(h, p, "gat1.bias", cohort))


def attend(h: Tensor, source_K: Tensor, target_K: Tensor, cohort: Cohort) -> Tensor:
    """Attention over neighbours and self, ``h [N, heads * d] -> [N, heads * d]``."""
    n, heads = h.shape[0], source_K.shape[1]
    by_head = h.view(n, heads, -1)
    sending = (by_head * source_K.index_select(0, cohort.batch)).sum(-1)
    receiving = (by_head * target_K.index_select(0, cohort.batch)).sum(-1)
    j, i = cohort.cached("attended", lambda: _attended(cohort, n))
    # index_select, whose gradient is an index_add: that of h[j] sorts its indices first.
    scores = sending.index_select(0, j) + receiving.index_select(0, i)
    weights = segment_softmax(leaky_relu(scores, _NEGATIVE_SLOPE), i, n)
    return segment_sum(by_head.index_select(0, j) * weights[:, :, None], i, n).flatten(1)


def _attended(cohort: Cohort, n: int) -> tuple[Tensor, Tensor]:
    """Who attends to whom: neighbours j of i, and i itself."""
    j, i = torch.cat([cohort.edges, torch.arange(n).expand(2, n)], dim=1)
    return j.contiguous(), i.contiguous()
