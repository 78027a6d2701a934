"""Where tensors are: the device of a run, and the two ways between it and numpy.

Within :func:`on_device` torch makes new tensors on that device by itself. Arrays of numpy, which
are always in the machine's own memory, come and go through here: nothing else may cross.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor

from atoll.errors import AtollError

CPU = "cpu"
P = ParamSpec("P")
T = TypeVar("T")


def of_numpy(array: np.ndarray) -> Tensor:
    """An array as a tensor on the device; on the CPU they share their memory."""
    return there(torch.from_numpy(array))


def there(tensor: Tensor) -> Tensor:
    """A tensor that was read from a file or a message, on the device."""
    device = torch.get_default_device()
    return tensor if device.type == CPU else tensor.to(device)


def to_numpy(values: Any) -> np.ndarray:
    """A tensor, wherever it is, or anything else that numpy knows, as an array."""
    array: np.ndarray = np.asarray(values.cpu() if isinstance(values, Tensor) else values)
    return array


def kept_per_device(maxsize: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """``functools.lru_cache`` for functions whose results hold tensors."""

    def decorate(compute: Callable[P, T]) -> Callable[P, T]:
        @lru_cache(maxsize=maxsize)
        def kept(_: torch.device, *args: Any, **named: Any) -> T:
            return compute(*args, **named)

        @wraps(compute)
        def found(*args: P.args, **named: P.kwargs) -> T:
            return kept(torch.get_default_device(), *args, **named)  # type: ignore[arg-type]

        return found

    return decorate


def refuse_no_device(name: str) -> None:
    """One sentence where torch knows no device of that name."""
    try:
        torch.device(name)
    except RuntimeError:
        raise AtollError(
            f"run.device is '{name}', which is no device of torch; write cpu, cuda, cuda:1, xpu or "
            f"the like."
        ) from None


def on_device(name: str) -> AbstractContextManager[Any]:
    """New tensors are made there; refused where there is no such device."""
    if name == CPU:
        return nullcontext()
    device = torch.device(name)
    try:
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as problem:
        said = str(problem).strip().splitlines()[0].rstrip(".")
        raise AtollError(
            f"run.device is '{name}', which can't be used here ({said}); set run.device=cpu."
        ) from problem
    return device
