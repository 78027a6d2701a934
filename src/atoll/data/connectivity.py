"""How well a network of clients is connected, as GFL's convergence bound measures it."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from atoll.errors import AtollError

# Up to here a full spectrum takes seconds; beyond, only its lower end is computed.
_DENSE_UP_TO = 2_000


def connectivity(network: sparse.csr_array) -> float:
    """``lambda_max(B_N L^+)`` of a connected, undirected network ``[N, N]``; smaller is better.

    Wu et al., 2022, Theorem 4.1: L is the Laplacian of the network, ``L^+`` its Moore-Penrose
    inverse, and ``B_N = I/N - 11'/N^2``. As ``L^+`` is orthogonal to the vector of ones,
    ``B_N L^+ = L^+/N``, and its largest eigenvalue is ``1 / (N lambda_2)`` with ``lambda_2`` the
    smallest eigenvalue of L that is not zero.
    """
    n = network.shape[0]
    components, _ = sparse.csgraph.connected_components(network, directed=False)
    if components != 1 or n < 2:
        raise AtollError(
            f"the network has {n} nodes in {components} components; its connectivity is defined "
            f"for a connected one of at least 2."
        )
    links = ((network + network.T) > 0).astype(np.float64)
    laplacian = sparse.csr_array(sparse.csgraph.laplacian(links))
    return float(1.0 / (n * _second_smallest_eigenvalue(laplacian)))


def _second_smallest_eigenvalue(laplacian: sparse.csr_array) -> float:
    if laplacian.shape[0] <= _DENSE_UP_TO:
        return float(np.linalg.eigvalsh(laplacian.toarray())[1])
    # Shifted a little below zero, where the singular matrix can be factorised.
    start = np.cos(np.arange(laplacian.shape[0]))
    lowest = sparse.linalg.eigsh(
        sparse.csc_array(laplacian), k=2, sigma=-1e-3, v0=start, return_eigenvectors=False
    )
    return float(lowest.max())
