"""Masks that count where they are large enough."""

from __future__ import annotations

import numba


@numba.njit(nogil=True, cache=True)
def thresholded_product(w, mask, threshold, theta, kept):
    """``kept = |mask| >= threshold``, ``theta = w mask`` where kept and else 0; arrays are flat.

    What is not a number is not kept, and stays in the product.
    """
    for i in range(len(w)):
        m = mask[i]
        above = abs(m) >= threshold
        kept[i] = above
        theta[i] = w[i] * (m if above else m * 0)
