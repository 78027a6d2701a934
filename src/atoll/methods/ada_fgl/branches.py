"""The two personal models: for homophilous clients, and for the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from atoll.cohort import Cohort
from atoll.methods.ada_fgl.knowledge import Knowledge
from atoll.methods.ada_fgl.signed import signed_sums
from atoll.models.base import add_bias, glorot
from atoll.ops.dropout import dropout
from atoll.ops.ragged import ragged_linear, segment_mean
from atoll.rng import CohortRng
from atoll.tasks.node_loss import nll
from atoll.tree import Params

# What a parametric ReLU starts from.
_SLOPE = 0.25


@dataclass(frozen=True)
class Branch:
    """A personal model on a client's own nodes; ``inputs`` is the width of ``X~``."""

    hidden: int
    dropout: float

    def init(self, features: int, inputs: int, classes: int, rng: np.random.Generator) -> Params:
        raise NotImplementedError("abstract")

    def loss(
        self, p: Params, cohort: Cohort, known: Knowledge, rng: CohortRng, class_weight: str
    ) -> Tensor:
        """One loss per client ``[K]``, as training sees it."""
        raise NotImplementedError("abstract")

    def shares(self, p: Params, cohort: Cohort, known: Knowledge) -> Tensor:
        """Class probabilities ``[N, C]``."""
        raise NotImplementedError("abstract")

    def layers(
        self,
        p: Mapping[str, Tensor],
        name: str,
        slope: str,
        h: Tensor,
        at: tuple[Cohort, CohortRng | None],
    ) -> Tensor:
        """The layers of that name after the first product ``h``, with parametric ReLUs between."""
        cohort, rng = at
        h = add_bias(h, p, f"{name}1.bias", cohort)
        depth = 2
        while f"{name}{depth}.weight" in p:
            h = dropout(prelu(h, p[slope], cohort), self.dropout, rng, cohort.sizes)
            h = ragged_linear(h, p[f"{name}{depth}.weight"], cohort.sizes)
            h = add_bias(h, p, f"{name}{depth}.bias", cohort)
            depth += 1
        return h


@dataclass(frozen=True)
class Homophilous(Branch):
    """``H = MLP(X~)`` with two layers: ``CE(H) + MSE(H, Pr)``; used, the mean of both softmaxes."""

    def init(self, features: int, inputs: int, classes: int, rng: np.random.Generator) -> Params:
        mlp = perceptron("smooth", (inputs, self.hidden, classes), rng)
        return mlp | {"slope": torch.tensor(_SLOPE, dtype=torch.float64)}

    def logits(
        self, p: Mapping[str, Tensor], cohort: Cohort, known: Knowledge, rng: CohortRng | None
    ) -> Tensor:
        h = ragged_linear(known.smoothed, p["smooth1.weight"], cohort.sizes)
        return self.layers(p, "smooth", "slope", h, (cohort, rng))

    def loss(
        self, p: Params, cohort: Cohort, known: Knowledge, rng: CohortRng, class_weight: str
    ) -> Tensor:
        logits = self.logits(p, cohort, known, rng)
        apart = ((logits - known.shares) ** 2).mean(1)
        return nll(logits, cohort, class_weight) + segment_mean(apart, cohort.batch, cohort.k)

    def shares(self, p: Params, cohort: Cohort, known: Knowledge) -> Tensor:
        # H was drawn towards Pr itself, so that both are on the scale of class scores.
        return (self.logits(p, cohort, known, None).softmax(1) + known.shares.softmax(1)) / 2


@dataclass(frozen=True)
class Heterophilous(Branch):
    """MLPs of three layers on X and on ``X~``, and a signed propagation of a third on ``X~``.

    The loss is the sum of the three cross-entropies; used, the mean of the three shares.
    """

    beta: float
    level: float

    def init(self, features: int, inputs: int, classes: int, rng: np.random.Generator) -> Params:
        h = self.hidden
        return {
            **perceptron("local", (features, h, h, classes), rng),
            **perceptron("smooth", (inputs, h, h, classes), rng),
            **perceptron("message", (inputs, h, h, classes), rng),
            "slope": torch.tensor(_SLOPE, dtype=torch.float64),
            "message_slope": torch.tensor(_SLOPE, dtype=torch.float64),
        }

    def logits(
        self, p: Mapping[str, Tensor], cohort: Cohort, known: Knowledge, rng: CohortRng | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        at = (cohort, rng)
        local = self.layers(p, "local", "slope", cohort.linear(p["local1.weight"]), at)
        h = ragged_linear(known.smoothed, p["smooth1.weight"], cohort.sizes)
        smooth = self.layers(p, "smooth", "slope", h, at)
        h = ragged_linear(known.smoothed, p["message1.weight"], cohort.sizes)
        e = self.layers(p, "message", "message_slope", h, at)
        return local, smooth, self.propagated(e, p["message_slope"], cohort, known)

    def propagated(self, e: Tensor, slope_K: Tensor, cohort: Cohort, known: Knowledge) -> Tensor:
        """``(softmax(prelu(Q) e) - softmax(prelu(-Q) e) + e) / 2``, client by client."""
        sizes = list(cohort.sizes)
        own = zip(
            torch.split(e, sizes),
            torch.split(known.unit, sizes),
            slope_K,
            known.alike_K,
            strict=True,
        )
        return torch.cat([self._signed(*parts) for parts in own])

    def _signed(self, e: Tensor, unit: Tensor, slope: Tensor, alike: Tensor) -> Tensor:
        """One client's, from what Q has above zero and below."""
        v = normalize(e.softmax(1), dim=1)
        above, below = signed_sums(e, v, unit, alike, self.beta, self.level)
        return ((above - slope * below).softmax(1) - (below - slope * above).softmax(1) + e) / 2

    def loss(
        self, p: Params, cohort: Cohort, known: Knowledge, rng: CohortRng, class_weight: str
    ) -> Tensor:
        three = self.logits(p, cohort, known, rng)
        return torch.stack([nll(logits, cohort, class_weight) for logits in three]).sum(0)

    def shares(self, p: Params, cohort: Cohort, known: Knowledge) -> Tensor:
        three = self.logits(p, cohort, known, None)
        return torch.stack([logits.softmax(1) for logits in three]).mean(0)


def perceptron(name: str, widths: tuple[int, ...], rng: np.random.Generator) -> Params:
    """Layers numbered from 1, drawn as Glorot and Bengio do, times the root of two for ReLUs."""
    params: Params = {}
    for i, (inputs, outputs) in enumerate(pairwise(widths), start=1):
        params[f"{name}{i}.weight"] = 2**0.5 * glorot(rng, inputs, outputs)
        params[f"{name}{i}.bias"] = torch.zeros(outputs, dtype=torch.float64)
    return params


def prelu(h: Tensor, slope_K: Tensor, cohort: Cohort) -> Tensor:
    """``max(h, 0) + slope min(h, 0)`` with each client's slope."""
    return torch.where(h > 0, h, slope_K.index_select(0, cohort.batch)[:, None] * h)
