"""Tensors of which only a part travels: the kept values, and one bit an entry that says which."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from atoll.tree import Leaf, Params, Ragged, Tree


def pack_tree(values_K: Mapping[str, Tensor], kept_K: Mapping[str, Tensor]) -> Tree:
    """``model/NAME`` and ``pattern/NAME`` for parameters with a mask, ``model/NAME`` for others."""
    body: Tree = {}
    for name, values in values_K.items():
        if name in kept_K:
            body[f"model/{name}"], body[f"pattern/{name}"] = pack_kept(values, kept_K[name])
        else:
            body[f"model/{name}"] = values
    return body


def unpack_tree(
    body: Mapping[str, Leaf], shapes: Mapping[str, torch.Size]
) -> tuple[Params, Params]:
    """The inverse: parameters with zeros where nothing was kept, and what was."""
    values, kept = {}, {}
    for name, shape in shapes.items():
        leaf = body[f"model/{name}"]
        if isinstance(leaf, Ragged):
            pattern = body[f"pattern/{name}"]
            assert isinstance(pattern, Tensor)
            values[name] = unpack_kept(leaf, pattern, shape)
            kept[name] = _bits(pattern, shape).view(-1, *shape)
        else:
            values[name] = leaf
    return values, kept


def bad_patterns(body: Mapping[str, Leaf], shapes: Mapping[str, torch.Size]) -> set[int]:
    """The rows of a packed tree in which some pattern does not fit its values."""
    bad: set[int] = set()
    for name, shape in shapes.items():
        leaf, pattern = body[f"model/{name}"], body.get(f"pattern/{name}")
        if isinstance(leaf, Ragged) and isinstance(pattern, Tensor):
            bad.update(misfits(leaf, pattern, shape))
    return bad


def packed_shape(shape: torch.Size, dtype: torch.dtype) -> tuple[Ragged, Tensor]:
    """What one client's packed parameter looks like: some values and a pattern."""
    bits = -(-shape.numel() // 8)
    return Ragged(torch.zeros(0, dtype=dtype), (0,)), torch.zeros(bits, dtype=torch.uint8)


def pack_kept(values_K: Tensor, kept_K: Tensor) -> tuple[Ragged, Tensor]:
    """The kept entries of each client, and the pattern as bytes ``[K, ceil(n / 8)]``."""
    flat, kept = values_K.flatten(1), kept_K.flatten(1)
    sizes = tuple(int(size) for size in kept.sum(1))
    pattern = np.packbits(kept.numpy(), axis=1)
    chosen = flat.reshape(-1)
    if min(sizes) < kept.shape[1]:
        chosen = chosen.index_select(0, _where(kept))
    return Ragged(chosen, sizes), torch.from_numpy(pattern)


def unpack_kept(values: Ragged, pattern_K: Tensor, shape: torch.Size) -> Tensor:
    """The inverse: ``[K, *shape]`` with zeros where nothing was kept."""
    kept = _bits(pattern_K, shape)
    if min(values.sizes) == shape.numel():
        return values.values.view(-1, *shape)
    full = values.values.new_zeros(kept.numel())
    return full.index_copy_(0, _where(kept), values.values).view(-1, *shape)


def misfits(values: Ragged, pattern_K: Tensor, shape: torch.Size) -> list[int]:
    """The rows whose pattern does not keep as many entries as there are values.

    Both come from outside, each well-formed by itself.
    """
    kept = _bits(pattern_K, shape).sum(1).tolist()
    return [
        i for i, (bits, size) in enumerate(zip(kept, values.sizes, strict=True)) if bits != size
    ]


def _where(kept: Tensor) -> Tensor:
    """The places of what is kept, whose use takes a third of the time of truth values'."""
    return torch.from_numpy(np.flatnonzero(kept.numpy()))


def _bits(pattern_K: Tensor, shape: torch.Size) -> Tensor:
    bits = np.unpackbits(pattern_K.numpy(), axis=1, count=shape.numel())
    return torch.from_numpy(bits).bool()
