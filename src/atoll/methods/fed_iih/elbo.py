"""The variational loss of FedIIH's text."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus
from torch.utils.checkpoint import checkpoint

from atoll.cohort import Cohort
from atoll.device import of_numpy
from atoll.methods.fed_iih.latent import gaussian_kl
from atoll.ops.ragged import segment_mean, segment_sum
from atoll.rng import CohortRng

# The standard deviation of nodes about their client's mean, and of these about the common one.
DEVIATION = 0.5
_LOG_VAR = 2 * math.log(DEVIATION)
# Rows of a client's n x n pairs that exist at a time.
_BLOCK = 1024


def negative_elbo(
    mean: Tensor, log_var: Tensor, own_K: Tensor, common_K: Tensor, cohort: Cohort, rng: CohortRng
) -> Tensor:
    """What the text minimises, one number per client ``[K]``.

    ``mean, log_var [N, F, d]`` of nodes, ``own_K [K, F, d]`` of clients, ``common_K`` of all. The
    cross-entropy of links, seen as ``sigmoid(z z^T)`` with z drawn, and for every factor the mean
    divergences of nodes from their client and of the client from all.
    """
    spread = torch.full_like(own_K, _LOG_VAR)
    of_nodes = own_K.index_select(0, cohort.batch)
    from_client = gaussian_kl(mean, log_var, of_nodes, torch.full_like(of_nodes, _LOG_VAR))
    from_client_K = segment_mean(from_client.mean(2), cohort.batch, cohort.k).sum(1)
    from_all_K = gaussian_kl(own_K, spread, common_K, spread).mean(2).sum(1)
    noise = np.concatenate(
        [
            stream.standard_normal((size, *mean.shape[1:]))
            for stream, size in zip(rng.streams, cohort.sizes, strict=True)
        ]
    )
    z = mean + of_numpy(noise).to(mean.dtype) * (log_var / 2).exp()
    return links_unlikely(z.flatten(1), cohort) + from_client_K + from_all_K


def links_unlikely(z: Tensor, cohort: Cohort) -> Tensor:
    """Each client's mean over all pairs of ``softplus(l_ij) - A_ij l_ij`` with ``l = z z^T``.

    Pairs are made by blocks of rows, once more for their gradient, and never all at a time.
    """

    def total(rows: Tensor, all_rows: Tensor) -> Tensor:
        return softplus(rows @ all_rows.T).sum()

    pairs_K = torch.stack(
        [
            torch.stack(
                [
                    checkpoint(total, rows, z_k, use_reentrant=False, preserve_rng_state=False)
                    for rows in torch.split(z_k, _BLOCK)
                ]
            ).sum()
            for z_k in torch.split(z, list(cohort.sizes))
        ]
    )
    j, i = cohort.edges
    linked = (z.index_select(0, j) * z.index_select(0, i)).sum(1)
    linked_K = segment_sum(linked, cohort.batch.index_select(0, i), cohort.k)
    return (pairs_K - linked_K) / torch.tensor(cohort.sizes, dtype=z.dtype) ** 2
