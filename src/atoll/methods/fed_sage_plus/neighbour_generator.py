"""NeighGen: a model that says how many neighbours a node has lost, and makes them up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.cohort.targets import Targets
from atoll.device import of_numpy
from atoll.methods.fed_sage_plus.at_targets import Children, children, with_neighbours
from atoll.methods.fed_sage_plus.made import Generated, Made, Output
from atoll.methods.fed_sage_plus.mending import Impaired
from atoll.models.base import bias_and_relu, fan_in
from atoll.ops.activation import rectified, shifted
from atoll.ops.ragged import ragged_linear, segment_sum
from atoll.ops.written_out import differentiated_once
from atoll.rng import CohortRng
from atoll.tree import Params


@dataclass(frozen=True)
class NeighbourGenerator:
    """NeighGen (Zhang et al., 2021, section 4.1), K of them at once.

    - Encoder: two GraphSAGE layers, ``z_v [latent]``.
    - dGen: ``n_v = relu(w z_v + b)``; rounded, and at most ``most``, it says how many are made.
    - fGen: ``x_v^p = tanh(W2 relu(W1 (z_v + e_p)))`` with a noise ``e_p ~ N(0, I)`` of its own for
      every neighbour p.
    - A GraphSAGE classifier of the mended graph, whose loss teaches the generator as well.

    Parameters have a leading K axis. ``rng`` None means no dropout, but noise there always is.
    """

    latent: int = 128
    most: int = 5
    dropout: float = 0.5

    def init(self, features: int, classes: int, rng: np.random.Generator) -> Params:
        h, wide = self.latent, 2 * self.latent
        params: Params = {}
        for layer, inputs, outputs in (
            ("encode1", features, h),
            ("encode2", h, h),
            ("classify1", features, h),
            ("classify2", h, classes),
        ):
            params[f"{layer}.neighbour"] = fan_in(rng, inputs, inputs, outputs)
            params[f"{layer}.self"] = fan_in(rng, inputs, inputs, outputs)
            params[f"{layer}.bias"] = fan_in(rng, inputs, outputs)
        for layer, inputs, outputs in (
            ("degree", h, 1),
            ("feature1", h, wide),
            ("feature2", wide, features),
        ):
            params[f"{layer}.weight"] = fan_in(rng, inputs, inputs, outputs)
            params[f"{layer}.bias"] = fan_in(rng, inputs, outputs)
        # A relu that starts below zero for every node would never learn.
        params["degree.bias"] = torch.full((1,), 0.5, dtype=torch.float64)
        return params

    def generate(
        self, p: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng, training: bool = True
    ) -> Output:
        """What the generators make of the cohort's nodes."""
        coins = rng if training else None
        z = self.encode(p, cohort, coins)
        degree = ragged_linear(z, p["degree.weight"], cohort.sizes)
        degree = shifted(degree, p["degree.bias"], cohort.batch, cohort.sizes).flatten().relu()
        counts = degree.detach().round().clamp(max=self.most).long()
        owner = torch.repeat_interleave(torch.arange(len(z)), counts)
        sizes = tuple(int(part.sum()) for part in torch.split(counts, list(cohort.sizes)))
        noise = [
            s.standard_normal((m, self.latent)) for s, m in zip(rng.streams, sizes, strict=True)
        ]
        noisy = z.index_select(0, owner) + of_numpy(np.concatenate(noise)).to(z.dtype)
        client = cohort.batch.index_select(0, owner)
        h = ragged_linear(noisy, p["feature1.weight"], sizes)
        h = rectified(h, p["feature1.bias"], client, sizes, self.dropout, coins)
        rows = ragged_linear(h, p["feature2.weight"], sizes)
        rows = shifted(rows, p["feature2.bias"], client, sizes).tanh_()
        return Output(degree, Generated.of(owner, rows, sizes))

    def made(self, p: Params, cohort: Cohort, rng: CohortRng) -> Made:
        """What :meth:`generate` makes, for a later step that learns from it."""
        own = {n: w for n, w in p.items() if not n.startswith("classify")}
        leaves = {n: w.detach().requires_grad_() for n, w in own.items()}
        with torch.enable_grad(), differentiated_once():
            output = self.generate(leaves, cohort, rng)
        return Made(output, leaves)

    def encode(self, p: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None) -> Tensor:
        """``z [N, latent]``."""
        neighbours = cohort.operator("mean") @ cohort.linear(p["encode1.neighbour"])
        h = neighbours + cohort.linear(p["encode1.self"])
        h = bias_and_relu(h, p, "encode1.bias", cohort, self.dropout, rng)
        neighbours = ragged_linear(h, p["encode2.neighbour"], cohort.sizes)
        own = ragged_linear(h, p["encode2.self"], cohort.sizes)
        return bias_and_relu(cohort.operator("mean") @ neighbours + own, p, "encode2.bias", cohort)

    def classify(
        self, p: Mapping[str, Tensor], impaired: Impaired, generated: Generated, targets: Targets
    ) -> Tensor:
        """Class scores of target nodes ``[M]`` by two GraphSAGE layers on the mended graph.

        A generated neighbour has one neighbour, its node, so the mended graph need not be built:
        each mean over neighbours is taken over the real and the generated ones. The second layer
        is computed at the targets, the first one at these and their neighbours.
        """
        cohort = impaired.cohort
        near = with_neighbours(cohort, targets)
        made = torch.bincount(generated.owner, minlength=len(cohort.batch))
        share = 1 / (impaired.degree + made).clamp(min=1)

        def plus_mean(
            own: Tensor, at: Targets, h_real: Tensor, h_made: Tensor, owner: Tensor
        ) -> Tensor:
            """``own`` plus the mean over a node's neighbours, real ones and generated ones."""
            real_share = (impaired.degree * share).index_select(0, at.rows)[:, None]
            both = torch.addcmul(own, real_share, at.operator("mean") @ h_real)
            h_made = share.index_select(0, owner)[:, None] * h_made
            return both.index_add_(0, torch.searchsorted(at.rows, owner), h_made)

        node = cohort.linear(p["classify1.neighbour"])
        own = cohort.linear(p["classify1.self"]).index_select(0, near.rows)
        few = children(cohort, generated, near)
        products = _summed_products(few, p["classify1.neighbour"], near)
        real = plus_mean(own, near, node, *products)
        real = rectified(real, p["classify1.bias"], near.batch, near.sizes)

        few = children(cohort, generated, targets)
        h = ragged_linear(few.rows, p["classify1.self"], few.sizes)
        h = h + node.index_select(0, few.owner)
        h = rectified(h, p["classify1.bias"], cohort.batch.index_select(0, few.owner), few.sizes)

        h_real = ragged_linear(real, p["classify2.neighbour"], near.sizes)
        h_real = h_real.new_zeros(len(share), h_real.shape[1]).index_copy(0, near.rows, h_real)
        h_made = ragged_linear(h, p["classify2.neighbour"], few.sizes)
        own = real.index_select(0, torch.searchsorted(near.rows, targets.rows))
        own = ragged_linear(own, p["classify2.self"], targets.sizes)
        logits = plus_mean(own, targets, h_real, h_made, few.owner)
        return shifted(logits, p["classify2.bias"], targets.batch, targets.sizes)


def _summed_products(few: Children, weight_K: Tensor, nodes: Targets) -> tuple[Tensor, Tensor]:
    """Products of rows and weights, and the node of each: of a node's generated neighbours one by
    one or of their sum, whichever are fewer."""
    owner, rows, sizes = few
    if len(nodes.rows) < len(rows):
        summed = segment_sum(rows, torch.searchsorted(nodes.rows, owner), len(nodes.rows))
        return ragged_linear(summed, weight_K, nodes.sizes), nodes.rows
    return ragged_linear(rows, weight_K, sizes), owner
