"""What a neighbour generator learns from: the terms of its loss, one number per client each."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, smooth_l1_loss

from atoll.cohort import Cohort
from atoll.leaves import Ragged
from atoll.methods.fed_sage_plus.made import Output
from atoll.methods.fed_sage_plus.mending import Impaired
from atoll.methods.fed_sage_plus.nearest import from_nearest_hidden
from atoll.ops.ragged import segment_mean, segment_sum


def degree_loss(output: Output, impaired: Impaired) -> Tensor:
    """``L^d``: the mean smooth L1 distance of predicted and true numbers ``[K]``."""
    missing = impaired.missing.to(output.degree.dtype)
    losses = smooth_l1_loss(output.degree, missing, reduction="none")
    return segment_mean(losses, impaired.cohort.batch, impaired.cohort.k)


def feature_loss(output: Output, impaired: Impaired) -> Tensor:
    """``L^f`` on the client's own hidden nodes ``[K]``.

    ``1/n sum_v sum_p min_u |x_v^p - x_u|^2`` over the hidden neighbours u of v. A neighbour made
    for a node that has lost none has nothing to be near to, and adds nothing.
    """
    owner = output.generated.owner
    some = (impaired.missing.index_select(0, owner) > 0).nonzero().flatten()
    owner = owner.index_select(0, some)
    distance = from_nearest_hidden(impaired, owner, output.generated.at(some))
    total = segment_sum(distance, impaired.cohort.batch[owner], impaired.cohort.k)
    return total / impaired.nodes


def cross_loss(output: Output, impaired: Impaired, chosen: Ragged, gradient: Ragged) -> Tensor:
    """A loss ``[K]`` whose gradient is that of ``L^x``, the distance to other clients' nodes.

    They alone can compute ``L^x``; ``gradient`` is the sum of what they answer for the rows
    ``chosen`` of each client. A loss linear in these rows has the same gradient, and each client's
    is scaled up to stand for all its rows.
    """
    made, proposed = output.generated, torch.tensor(chosen.sizes)
    scale_K = torch.tensor(made.sizes, dtype=made.rows.dtype) / proposed.clamp(min=1)
    client = torch.repeat_interleave(torch.arange(len(proposed)), proposed)
    product = (made.at(chosen.values) * gradient.values).sum(1)
    return scale_K * segment_sum(product, client, len(proposed)) / impaired.nodes


def class_loss(logits: Tensor, cohort: Cohort) -> Tensor:
    """``L^c``: the mean cross-entropy of the training nodes, from their class scores ``[K]``."""
    train = cohort.rows("train")
    losses = cross_entropy(logits, cohort.y[train], reduction="none")
    return segment_mean(losses, cohort.batch[train], cohort.k)
