"""NeighGen: a model that says how many neighbours a node has lost, and makes them up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.device import of_numpy
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
        return Output(degree, Generated(owner, rows, sizes))

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
        self, p: Mapping[str, Tensor], impaired: Impaired, generated: Generated, nodes: Tensor
    ) -> Tensor:
        """Class scores of ``nodes [M]`` by two GraphSAGE layers on the mended graph.

        A generated neighbour has one neighbour, its node, so the mended graph need not be built:
        each mean over neighbours is taken over the real and the generated ones.
        """
        cohort, owner = impaired.cohort, generated.owner
        neighbours = impaired.degree + torch.bincount(owner, minlength=len(cohort.batch))
        share = (1 / neighbours.clamp(min=1))[:, None]

        def plus_mean(own: Tensor, h_real: Tensor, h_made: Tensor, owner: Tensor) -> Tensor:
            """``own`` plus the mean over a node's neighbours, real ones and generated ones."""
            real = cohort.operator("mean") @ h_real
            both = torch.addcmul(own, impaired.degree[:, None] * share, real)
            return both.index_add_(0, owner, share.index_select(0, owner) * h_made)

        node = cohort.linear(p["classify1.neighbour"])
        real = plus_mean(
            cohort.linear(p["classify1.self"]),
            node,
            *_summed_products(generated, p["classify1.neighbour"], cohort.sizes),
        )
        real = rectified(real, p["classify1.bias"], cohort.batch, cohort.sizes)
        # The second layer looks at those generated for the nodes in question only.
        asked = torch.zeros(len(neighbours), dtype=torch.bool).index_fill(0, nodes, True)
        needed = asked.index_select(0, owner).nonzero().flatten()
        owner = owner.index_select(0, needed)
        client = cohort.batch.index_select(0, owner)
        sizes = tuple(torch.bincount(client, minlength=cohort.k).tolist())
        made = ragged_linear(generated.at(needed), p["classify1.self"], sizes)
        made = made + node.index_select(0, owner)
        made = rectified(made, p["classify1.bias"], client, sizes)
        logits = plus_mean(
            ragged_linear(real, p["classify2.self"], cohort.sizes),
            ragged_linear(real, p["classify2.neighbour"], cohort.sizes),
            ragged_linear(made, p["classify2.neighbour"], sizes),
            owner,
        )
        return shifted(logits, p["classify2.bias"], cohort.batch, cohort.sizes)[nodes]


def _summed_products(
    generated: Generated, weight_K: Tensor, nodes_K: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """Products of rows and weights, and the node of each: of a node's generated neighbours one by
    one or of their sum, whichever are fewer."""
    owner, rows, sizes = generated
    count = sum(nodes_K)
    if count < len(rows):
        summed = ragged_linear(segment_sum(rows, owner, count), weight_K, nodes_K)
        return summed, torch.arange(count)
    return ragged_linear(rows, weight_K, sizes), owner
