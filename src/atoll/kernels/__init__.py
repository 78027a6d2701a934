"""Compiled kernels for the CPU, where numba is installed; plain torch does the same elsewhere.

Whoever can use one asks :func:`fit` first and has the torch operations that it stands for beside
it: these are the reference that tests hold kernels against. ``ATOLL_KERNELS=0`` switches them off.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from atoll.kernels.keeping import compiled_beside

SWITCH = "ATOLL_KERNELS"
# No machine has wider vectors; rows of fewer bytes than that are left to torch.
VECTOR_BYTES = 64
_KNOWN = (torch.float32, torch.float64)
_on: ContextVar[bool] = ContextVar("kernels", default=True)


@cache
def installed() -> bool:
    """Whether there are kernels, and nobody has switched them off for the whole process."""
    return os.environ.get(SWITCH, "1") != "0" and find_spec("numba") is not None


@contextmanager
def switched(on: bool) -> Iterator[None]:
    """Kernels on or off for a while."""
    token = _on.set(on)
    try:
        yield
    finally:
        _on.reset(token)


def in_use() -> bool:
    return _on.get() and installed()


def fit(*tensors: Tensor) -> bool:
    """Whether kernels can take these tensors: plain ones of one type, in this machine's memory.

    Not while somebody listens to what torch does, as those do who follow tensors between devices.
    """
    if not in_use() or torch._C._len_torch_function_stack():
        return False
    dtype = tensors[0].dtype
    if dtype not in _KNOWN:
        return False
    for t in tensors:
        if type(t) is not Tensor or t.dtype != dtype or not t.is_cpu or not t.is_contiguous():
            return False
    return True


def wide(tensor: Tensor) -> bool:
    """Whether a row ``[n, h]`` fills a vector."""
    return tensor.shape[-1] * tensor.itemsize >= VECTOR_BYTES


def array(tensor: Tensor) -> np.ndarray:
    """The memory of a tensor that fits."""
    found: np.ndarray = (tensor.detach() if tensor.requires_grad else tensor).numpy()
    return found


@cache
def kernels(name: str) -> Any:
    """A module of kernels, with what was compiled of it before."""
    with compiled_beside():
        return import_module(f"atoll.kernels.{name}")
