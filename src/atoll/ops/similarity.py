"""How alike clients are, and mixing by it."""

from __future__ import annotations

import torch
from torch import Tensor


def cosine(rows: Tensor) -> Tensor:
    """Cosine of every pair of rows, ``[K, d] -> [K, K]``; a row of zeros is like nothing."""
    unit = torch.nn.functional.normalize(rows, dim=1)
    return unit @ unit.T


def mixing_weights(similarity: Tensor, scale: float) -> Tensor:
    """``exp(scale S_ij) / sum_k exp(scale S_ik)``: rows sum to one (FED-PUB, eq. 3)."""
    return torch.softmax(scale * similarity, dim=1)
