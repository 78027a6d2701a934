"""The neighbourhood aggregator of personalised propagation, as one matrix."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy import sparse

from atoll.ops.sparse import gcn_operator

Weights = Literal["appnp", "printed"]


def personalised_propagation(
    network: sparse.csr_array, alpha: float, hops: int, weights: Weights = "appnp"
) -> np.ndarray:
    """``A~ = sum_{i=0..M} w_i P^i`` with ``P = D^-1/2 (A + I) D^-1/2``, dense ``[K, K]``.

    ``appnp``: ``w_i = alpha (1 - alpha)^i`` and ``w_M = (1 - alpha)^M``, which is what ``M`` times
    ``Z <- (1 - alpha) P Z + alpha H`` makes of H, with alpha the chance to teleport back
    (Gasteiger et al., 2019). ``printed``: ``w_i = (1 - alpha) alpha^i`` and ``w_M = alpha^M``, as
    GFL's eq. 13b has it: the same with alpha and 1 - alpha exchanged. Both sum to one.

    However many links two clients have, they count as one.
    """
    links = sparse.csr_array(network, dtype=np.float64, copy=True)
    links.data[:] = 1.0
    step = gcn_operator(links)
    teleport = alpha if weights == "appnp" else 1.0 - alpha
    own = np.eye(links.shape[0])
    z = own.copy()
    for _ in range(hops):
        z = (1.0 - teleport) * (step @ z) + teleport * own
    return z
