"""Similarity of clients, and mixing by it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from atoll.kernels import array, fit, kernels, wide
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


def weighted_sum(weight_K: Tensor, values: Tensor) -> Tensor:
    """``sum_k w_k v_k``, ``[K], [K, ...] -> [...]``."""
    weights = weight_K.to(values.dtype)
    if values.dim() < 2 or not (fit(weights, values) and values.numel()):
        plain: Tensor = torch.tensordot(weights, values, dims=1)
        return plain
    rows, found = values.flatten(1), values.new_empty(values.shape[1:])
    if not wide(rows):
        return torch.mv(rows.t(), weights).view(found.shape)
    # The one row of a sparse matrix whose columns are clients: torch's product reads slower.
    one_row = *_everybody(len(rows)), array(weights), array(rows), array(found).reshape(1, -1)
    kernels("sparse").csr_product(*one_row, 0, 1)
    return found


@lru_cache(maxsize=64)
def _everybody(k: int) -> tuple[np.ndarray, np.ndarray]:
    """Pointers and indices of a row that has an entry for each client."""
    return np.array([0, k], dtype=np.int32), np.arange(k, dtype=np.int32)
