"""Graph convolutional network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.cohort.collection import Collection
from atoll.cohort.dual import Dual, FirstLayer
from atoll.cohort.packed import Packed
from atoll.cohort.targets import Targets
from atoll.kernels import fit
from atoll.models.base import (
    Model,
    Pullback,
    ReadOut,
    WrittenPullback,
    add_bias,
    bias_and_relu,
    fan_in,
    glorot,
    models,
    read_out,
    spread,
    without_biases,
)
from atoll.ops.dropout import Coins, dropout, thrown
from atoll.ops.ragged import ragged_linear, segment_sum
from atoll.ops.ragged_product import outer, ragged_product
from atoll.ops.written_out import (
    ProductGradient,
    activated,
    activated_back,
    activated_sums,
    row_sums,
    with_bias,
)
from atoll.options import option
from atoll.rng import CohortRng
from atoll.tree import Params


@models.register("gcn")
@dataclass(frozen=True, kw_only=True)
class GCN(Model):
    """Two graph convolutions (Kipf and Welling, 2017), with or without a linear classifier on top.

    ``P = D^-1/2 (A + I) D^-1/2``; with ``head="linear"`` (the form FED-PUB uses, the default)
    ``relu(P relu(P X W1 + b1) W2 + b2) W3 + b3``; with ``head="graph"`` (the original)
    ``P relu(P X W1 + b1) W2 + b2``. Dropout follows each hidden layer; ``bias = false`` leaves
    out b1, b2 and b3. Where small graphs are classified, the ``readout`` of a graph's nodes (their
    ``mean`` or ``sum``) follows the second convolution and its activation.

    Shapes: ``conv1.weight [f, hidden]``, ``conv2.weight [hidden, hidden or classes]``,
    ``classifier.weight [hidden, classes]``.
    """

    reach: ClassVar[int | None] = 1
    reads_out: ClassVar[bool] = True
    on_features: ClassVar[tuple[str, ...]] = ("conv1.weight",)

    hidden: int = option(128, at_least=1)
    dropout: float = option(0.5, at_least=0, below=1)
    head: Literal["linear", "graph"] = "linear"
    bias: bool = True
    readout: ReadOut = "mean"

    @property
    def first_layer(self) -> FirstLayer | None:
        # Dropout is drawn for a client's nodes as they are.
        return FirstLayer("conv1.weight", "gcn", 1) if self.dropout == 0 else None

    @property
    def sampled_hops(self) -> tuple[int, ...]:
        return (1, 2)

    def init(self, features: int, classes: int, rng: np.random.Generator) -> Params:
        second = self.hidden if self.head == "linear" else classes
        params = {
            "conv1.weight": glorot(rng, features, self.hidden),
            "conv1.bias": torch.zeros(self.hidden, dtype=torch.float64),
            "conv2.weight": glorot(rng, self.hidden, second),
            "conv2.bias": torch.zeros(second, dtype=torch.float64),
        }
        if self.head == "linear":
            params["classifier.weight"] = fan_in(rng, self.hidden, self.hidden, classes)
            params["classifier.bias"] = fan_in(rng, self.hidden, classes)
        return params if self.bias else without_biases(params)

    def apply(
        self, params_K: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None = None
    ) -> Tensor:
        return self._scores(params_K, cohort, cohort, rng)

    def embed(self, params_K: Mapping[str, Tensor], cohort: Cohort) -> Tensor:
        """The second convolution's output, before the activation ``[N, hidden or classes]``.

        Read out where small graphs are held.
        """
        h, at = read_out(self._convolve(params_K, cohort, cohort, None), cohort, self.readout)
        return spread(h, at)

    def mean_embedding(self, params_K: Mapping[str, Tensor], cohort: Cohort) -> Tensor:
        """The mean over nodes comes before the second layer, which is linear: no row is
        multiplied that only counts in the mean."""
        if cohort.collection is not None or not isinstance(cohort.inputs, Packed):
            return super().mean_embedding(params_K, cohort)
        h = cohort.linear(params_K["conv1.weight"], propagated="gcn")
        share = cohort.cached("shares in a mean of neighbours", lambda: _shares(cohort))
        if self.bias and fit(h, params_K["conv1.bias"], share):
            mean_K = activated_sums(h, params_K["conv1.bias"], share[:, 0], cohort.sizes)
        else:
            h = add_bias(h, params_K, "conv1.bias", cohort).relu_()
            mean_K = segment_sum(h.mul_(share), cohort.batch, cohort.k)
        made_K = torch.bmm(mean_K[:, None], params_K["conv2.weight"])[:, 0]
        return made_K + params_K["conv2.bias"] if self.bias else made_K

    def apply_at(
        self,
        params_K: Mapping[str, Tensor],
        cohort: Cohort,
        targets: Targets,
        rng: CohortRng | None = None,
    ) -> Tensor:
        """What follows the first layer is computed at target nodes alone."""
        if not cohort.inputs.by_rows or cohort.collection is not None:
            return super().apply_at(params_K, cohort, targets, rng)
        return self._scores(params_K, cohort, targets, rng)

    def _scores(
        self, p: Mapping[str, Tensor], cohort: Cohort, at: Cohort | Targets, rng: CohortRng | None
    ) -> Tensor:
        h = self._convolve(p, cohort, at, rng)
        if self.head == "graph":
            return h if isinstance(at, Targets) else spread(*read_out(h, cohort, self.readout))
        rows = at.rows if isinstance(at, Targets) else None
        h = dropout(h.relu_(), self.dropout, rng, cohort.sizes, rows)
        of: Cohort | Targets | Collection = at
        if not isinstance(at, Targets):
            h, of = read_out(h, cohort, self.readout)
        h = ragged_linear(h, p["classifier.weight"], of.sizes)
        return spread(add_bias(h, p, "classifier.bias", of), of)

    def _convolve(
        self, p: Mapping[str, Tensor], cohort: Cohort, at: Cohort | Targets, rng: CohortRng | None
    ) -> Tensor:
        h = cohort.linear(p["conv1.weight"], propagated="gcn")
        h = bias_and_relu(h, p, "conv1.bias", cohort, self.dropout, rng)
        if self.head == "linear":
            # As wide after as before, so what leaves nodes out comes first.
            h = ragged_linear(at.operator("gcn") @ h, p["conv2.weight"], at.sizes)
        else:
            h = at.operator("gcn") @ ragged_linear(h, p["conv2.weight"], cohort.sizes)
        return add_bias(h, p, "conv2.bias", at)

    def vjp_at(
        self,
        params_K: Mapping[str, Tensor],
        cohort: Cohort,
        targets: Targets,
        rng: CohortRng | None = None,
    ) -> tuple[Tensor, WrittenPullback] | None:
        inputs, p = cohort.inputs, params_K
        others = [v for name, v in p.items() if name not in self.on_features]
        if not isinstance(inputs, Packed) or not self.bias or cohort.collection is not None:
            return None
        first = inputs.linear_vjp(p["conv1.weight"], "gcn") if fit(*others) else None
        if first is None:
            return None
        z, pull_first = first
        coins = self._coins(rng, cohort)
        h = activated(z, p["conv1.bias"], cohort.sizes, coins)
        to_targets = targets.operator("gcn")
        if self.head == "graph":
            t = ragged_linear(h, p["conv2.weight"], cohort.sizes)
            scores = with_bias(to_targets @ t, p["conv2.bias"], targets.sizes)
        else:
            a = to_targets @ h
            u = ragged_linear(a, p["conv2.weight"], targets.sizes)
            above = self._coins(rng, cohort)
            u = activated(u, p["conv2.bias"], targets.sizes, above, targets.rows)
            scores = ragged_linear(u, p["classifier.weight"], targets.sizes)
            with_bias(scores, p["classifier.bias"], targets.sizes)

        def pull(errors: Tensor) -> dict[str, Tensor | ProductGradient]:
            """From the last layer to the first."""
            found: dict[str, Tensor | ProductGradient] = {}

            def through(layer: str, rows: Tensor, grad: Tensor, sizes: Sequence[int]) -> Tensor:
                found[f"{layer}.weight"] = outer(rows, grad, tuple(sizes))
                return ragged_product(grad, p[f"{layer}.weight"].transpose(1, 2), sizes)

            if self.head == "graph":
                found["conv2.bias"] = row_sums(errors, targets.sizes)
                back = through("conv2", h, to_targets.t @ errors, cohort.sizes)
            else:
                found["classifier.bias"] = row_sums(errors, targets.sizes)
                back = through("classifier", u, errors, targets.sizes)
                back, found["conv2.bias"] = activated_back(back, u, targets.sizes, above)
                back = to_targets.t @ through("conv2", a, back, targets.sizes)
            back, found["conv1.bias"] = activated_back(back, h, cohort.sizes, coins)
            found["conv1.weight"] = pull_first(back)
            return {name: found[name] for name in p}

        return scores, pull

    def _coins(self, rng: CohortRng | None, cohort: Cohort) -> Coins | None:
        if rng is None or self.dropout == 0:
            return None
        return thrown(self.dropout, rng, cohort.sizes, self.hidden)

    def vjp(self, params_K: Mapping[str, Tensor], cohort: Cohort) -> tuple[Tensor, Pullback] | None:
        dual = cohort.inputs
        if not isinstance(dual, Dual) or self.head == "linear" or not self.bias:
            return None
        w2, p = params_K["conv2.weight"], dual.operator("gcn")
        z = dual.linear(params_K["conv1.weight"])
        r = dual.by_client(add_bias(z, params_K, "conv1.bias", cohort).relu_())
        scores = add_bias(p @ torch.bmm(r, w2).flatten(0, 1), params_K, "conv2.bias", cohort)

        def pull(errors: Tensor) -> Params:
            back = dual.by_client(p.t @ errors)
            first = torch.bmm(back, w2.transpose(1, 2)).mul_(r > 0)
            return {
                "conv1.weight": first.flatten(0, 1),
                "conv1.bias": first.sum(1),
                "conv2.weight": torch.bmm(r.transpose(1, 2), back),
                "conv2.bias": dual.by_client(errors).sum(1),
            }

        return scores, pull


def _shares(cohort: Cohort) -> Tensor:
    """``1^T P / n``: what each row counts in its client's mean of ``P h``, ``[N, 1]``."""
    one_K = 1 / torch.tensor(cohort.sizes, dtype=cohort.dtype)
    return cohort.operator("gcn").t @ one_K.index_select(0, cohort.batch)[:, None]
