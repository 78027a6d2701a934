"""Means under a Gaussian kernel between the nodes of one client, along one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

# Widths from which on few products of powers are the kernel to the last digit.
_WIDE = 1.0
# Rows of the kernel that exist at a time where it is narrow.
_BLOCK = 1024


def kernel_mean(s: Tensor, h: Tensor, sigma: float, sizes: Sequence[int]) -> Tensor:
    """``z_i = sum_j k_ij h_j / sum_j k_ij`` with ``k_ij = exp(-(s_i - s_j)^2 / sigma^2)``.

    ``s [N]`` within -1 and 1, ``h [N, d] -> [N, d]``; i and j are nodes of the same client, of
    which the client at position k has ``sizes[k]``. No kernel ``[n, n]`` is kept. With
    ``c = 2 / sigma^2``,

        ``k_ij = sum_m phi_m(s_i) phi_m(s_j)``,
        ``phi_m(s) = exp(-s^2 / sigma^2) s^m sqrt(c^m / m!)``,

    where a wide kernel has some 25 terms above the rounding of float64, so that a mean takes
    O(n) time. Narrow kernels are computed by blocks of rows, and once more for their gradient.
    """
    mean = _mean_of_wide if sigma >= _WIDE else _mean_of_narrow
    pairs = zip(torch.split(s, list(sizes)), torch.split(h, list(sizes)), strict=True)
    return torch.cat([mean(s_k, h_k, sigma) for s_k, h_k in pairs])


def _mean_of_wide(s: Tensor, h: Tensor, sigma: float) -> Tensor:
    c = 2 / sigma**2
    m = torch.arange(_terms(c), dtype=s.dtype)
    root = torch.exp((m * math.log(c) - torch.lgamma(m + 1)) / 2)
    phi = s[:, None].pow(m) * root * torch.exp(-((s / sigma) ** 2))[:, None]
    return (phi @ (phi.T @ h)) / (phi @ phi.sum(0))[:, None]


def _terms(c: float) -> int:
    """How many terms of ``exp(x)``, ``|x| <= c``, matter beside its smallest value."""
    m, term = 0, 1.0
    while term > 1e-18 * math.exp(-c):
        m += 1
        term *= c / m
    return m + 1


def _mean_of_narrow(s: Tensor, h: Tensor, sigma: float) -> Tensor:
    def rows(s_i: Tensor, s_j: Tensor, h_j: Tensor) -> Tensor:
        k = torch.exp(-(((s_i[:, None] - s_j) / sigma) ** 2))
        return (k @ h_j) / k.sum(1, keepdim=True)

    if len(s) <= _BLOCK:
        return rows(s, s, h)
    blocks = [
        checkpoint(rows, s_i, s, h, use_reentrant=False, preserve_rng_state=False)
        for s_i in torch.split(s, _BLOCK)
    ]
    return torch.cat(blocks)
