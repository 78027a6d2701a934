"""Dropout whose mask is keyed by client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from atoll.device import of_numpy
from atoll.rng import CohortRng


def dropout(
    h: Tensor,
    p: float,
    rng: CohortRng | None,
    sizes: Sequence[int],
    rows: Tensor | None = None,
) -> Tensor:
    """Zero entries of ``h [N, ...]`` with probability ``p``, scale the rest by ``1 / (1 - p)``.

    With ``rows [R]``, ``h [R, ...]`` has these rows only; they are treated as among all.

    ``rng`` None means evaluation: nothing is dropped. Masks come from raw bits of each client's
    own stream, 8 bits per number where that represents ``p`` exactly and 16 otherwise: several
    times cheaper on a CPU than torch's Bernoulli sampler.
    """
    if rng is None or p == 0.0:
        return h
    coins = thrown(p, rng, sizes, h[0].numel() if len(h) else 0)
    # By numpy, whose conversion of truth values takes a third of the time of torch's.
    dtype = np.float32 if h.dtype == torch.float32 else np.float64
    mask = coins.numbers >= coins.threshold
    if rows is not None:
        mask = mask[rows.cpu().numpy()]
    mask = np.multiply(mask, coins.scale, dtype=dtype)
    return h * of_numpy(mask).view(h.shape)


class Coins(NamedTuple):
    """What was drawn for dropout ``[N, width]``: numbers below ``threshold`` are zeroes, what
    stays is scaled."""

    numbers: np.ndarray
    threshold: int
    scale: float


def thrown(p: float, rng: CohortRng, sizes: Sequence[int], width: int) -> Coins:
    """The coins of all rows of all clients, from each client's own stream."""
    bits: type[np.unsignedinteger] = np.uint8 if (p * 256).is_integer() else np.uint16
    levels = int(np.iinfo(bits).max) + 1
    threshold = round(p * levels)
    numbers = rng.raw([size * width for size in sizes], bits)
    return Coins(numbers.reshape(sum(sizes), width), threshold, levels / (levels - threshold))
