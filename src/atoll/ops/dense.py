"""Dense products outside of training, by the faster of the two libraries that torch brings."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

# Smaller products take longer to hand over than they gain.
_ROWS = 128
_PROCESSORS = Path("/proc/cpuinfo")


def product(a: Tensor, b: Tensor) -> Tensor:
    """``a [n, m] @ b [m, h]``.

    MKL, which torch multiplies by, leaves half of the width of other makers' processors unused;
    oneDNN, which comes with torch as well, does not. It is asked where no gradient is needed.
    """
    fits = a.dtype == b.dtype == torch.float32 and len(a) >= _ROWS and a.device.type == "cpu"
    asked = torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)
    other = _by_onednn() if fits and not asked else None
    if other is None:
        return a @ b
    found: Tensor = other(a, b.t(), None, "none", [], "")
    return found


@cache
def _by_onednn() -> Callable[..., Any] | None:
    """The product of oneDNN that torch compiles models to.

    None where this torch has it not, and on Intel's processors, of which MKL makes more.
    """
    if _PROCESSORS.is_file() and "GenuineIntel" in _PROCESSORS.read_text():
        return None
    try:
        if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
            return None
        found: Callable[..., Any] = torch.ops.mkldnn._linear_pointwise
        two = torch.full((_ROWS, 2), 2.0)
        right = torch.equal(found(two, two[:2].t(), None, "none", [], ""), two @ two[:2])
    except (AttributeError, RuntimeError, TypeError):
        return None
    return found if right else None
