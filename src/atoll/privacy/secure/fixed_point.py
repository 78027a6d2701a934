"""Real numbers as whole ones modulo 2^64, so that masks cancel exactly."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from atoll.device import of_numpy

# A number is known to within half of 2^-32; a sum lies between -2^31 and 2^31.
FRACTION_BITS, WHOLE_BITS = 32, 31


def fits(rows: Tensor, parties: int) -> Tensor:
    """Which rows ``[K, D]`` are finite and small enough for a sum of so many, ``[K]``."""
    most = 2.0**WHOLE_BITS / parties
    return (rows.abs() < most).all(dim=1)


def encoded(row: Tensor) -> np.ndarray:
    """A row of numbers ``[D]`` as uint64."""
    whole = torch.round(row.double() * 2.0**FRACTION_BITS).to(torch.int64)
    return whole.cpu().numpy().view(np.uint64)


def decoded(total: np.ndarray) -> Tensor:
    """A sum modulo 2^64 as real numbers."""
    return of_numpy(total.view(np.int64).astype(np.float64)) / 2.0**FRACTION_BITS
