"""Similarity of clients, and mixing by it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from atoll.kernels import fit
from atoll.ops.ragged_product import ragged_product


def cosine(rows: Tensor) -> Tensor:
    """Cosine of every pair of rows, ``[K, d] -> [K, K]``; a row of zeros is similar to none."""
    unit = torch.nn.functional.normalize(rows, dim=1)
    return unit @ unit.T


def overlap(shares: Tensor) -> Tensor:
    """One minus the Jensen-Shannon distance (in bits) of every pair of distributions ``[K, K]``."""
    p, q = shares[:, None], shares[None]
    middle = (p + q) / 2
    divergence = (_relative_entropy(p, middle) + _relative_entropy(q, middle)) / 2
    return 1 - divergence.clamp(min=0).sqrt()


def _relative_entropy(p: Tensor, q: Tensor) -> Tensor:
    # xlogy is zero where p is, whatever q is.
    return (torch.xlogy(p, p) - torch.xlogy(p, q)).sum(-1) / math.log(2)


def mixing_weights(similarity: Tensor, scale: float, above: float = -1.0) -> Tensor:
    """``exp(scale S_ij) / sum_k exp(scale S_ik)``: rows sum to one (FED-PUB, eq. 3).

    Only clients with a similarity above ``above`` mix (Appendix C.8), each with itself in any case.
    """
    scaled = scale * similarity
    if above > -1.0:
        strangers = (similarity <= above) & ~torch.eye(len(similarity), dtype=torch.bool)
        scaled = scaled.masked_fill(strangers, -torch.inf)
    return torch.softmax(scaled, dim=1)


def mixed(alpha: Tensor, values_K: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``sum_j alpha_ij theta_j`` for every i (FED-PUB, eq. 3)."""
    found = {}
    for name, v in values_K.items():
        weights = alpha.to(v.dtype).contiguous()
        if fit(weights, v):
            mixtures = ragged_product(weights, v.flatten(1)[None], (len(weights),))
            found[name] = mixtures.view(-1, *v.shape[1:])
        else:
            found[name] = torch.tensordot(weights, v, dims=1)
    return found
