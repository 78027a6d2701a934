"""Tensors of which only a part travels: the kept values, and one bit an entry that says which."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from atoll.tree import Ragged


def pack_kept(values_K: Tensor, kept_K: Tensor) -> tuple[Ragged, Tensor]:
    """The kept entries of each client, and the pattern as bytes ``[K, ceil(n / 8)]``."""
    flat, kept = values_K.flatten(1), kept_K.flatten(1)
    sizes = tuple(int(size) for size in kept.sum(1))
    pattern = np.packbits(kept.numpy(), axis=1)
    everything = min(sizes) == kept.shape[1]  # the usual case, and a choice is slow
    chosen = flat.reshape(-1) if everything else flat[kept]
    return Ragged(chosen, sizes), torch.from_numpy(pattern)


def unpack_kept(values: Ragged, pattern_K: Tensor, shape: torch.Size) -> Tensor:
    """The inverse: ``[K, *shape]`` with zeros where nothing was kept."""
    kept = _bits(pattern_K, shape)
    if min(values.sizes) == shape.numel():
        return values.values.view(-1, *shape)
    full = values.values.new_zeros(kept.shape)
    full[kept] = values.values
    return full.view(-1, *shape)


def misfits(values: Ragged, pattern_K: Tensor, shape: torch.Size) -> list[int]:
    """The rows whose pattern does not keep as many entries as there are values.

    Both come from outside, each well-formed by itself.
    """
    kept = _bits(pattern_K, shape).sum(1).tolist()
    return [
        i for i, (bits, size) in enumerate(zip(kept, values.sizes, strict=True)) if bits != size
    ]


def _bits(pattern_K: Tensor, shape: torch.Size) -> Tensor:
    bits = np.unpackbits(pattern_K.numpy(), axis=1, count=shape.numel())
    return torch.from_numpy(bits).bool()
