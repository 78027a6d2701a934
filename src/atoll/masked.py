"""Tensors of which only a part travels: the kept values, and one bit per entry that says which."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from atoll.device import of_numpy
from atoll.kernels import array, fit, kernels
from atoll.leaves import Column, Compound, Like, Ragged, everybody


@dataclass(frozen=True, eq=False)
class Masked(Compound):
    """K tensors of one shape and which of their entries are kept, both ``[K, ...]``.

    Entries that are not kept do not count and should be zero: they do not travel.
    """

    values: Tensor
    kept: Tensor

    # Its packed form is what is read.
    endings: ClassVar[tuple[str, ...]] = ("#kept", "#sizes", "#pattern")

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many entries each client keeps."""
        return _counts(self.kept)

    def filled(self, own_K: Tensor) -> Tensor:
        """``own_K`` with the kept entries in place of its own."""
        if sum(self.sizes) == self.kept.numel():
            return self.values
        return torch.where(self.kept, self.values, own_K)

    def packed(self) -> Packed:
        kept = self.kept.flatten(1)
        chosen = self.values.detach().reshape(-1)
        if min(self.sizes, default=0) < kept.shape[1]:
            chosen = chosen.index_select(0, _where(kept))
        return Packed(Ragged(chosen, self.sizes), of_numpy(np.packbits(kept.cpu().numpy(), axis=1)))

    @property
    def clients(self) -> int:
        return len(self.values)

    def parts(self) -> tuple[Tensor, ...]:
        return self.packed().parts()

    @classmethod
    def of_parts(cls, *parts: Tensor) -> Packed:
        return Packed.of_parts(*parts)

    def columns(self) -> tuple[Column, ...]:
        return _columns(self.sizes, self.values[0].numel(), self.values.dtype)

    def take(self, positions: Sequence[int]) -> Masked:
        """A contiguous run is a view, not a copy."""
        first = positions[0] if positions else 0
        run = list(positions) == list(range(first, first + len(positions)))
        if run and len(positions) == self.clients:
            return self  # with what was counted of it
        rows = slice(first, first + len(positions)) if run else list(positions)
        return Masked(self.values[rows], self.kept[rows])

    @classmethod
    def joined(cls, leaves: Sequence[Masked]) -> Masked:
        values = torch.cat([leaf.values for leaf in leaves])
        return cls(values, torch.cat([leaf.kept for leaf in leaves]))

    def clone(self) -> Masked:
        return self.with_copied(self.values.clone())

    def with_copied(self, values: Tensor) -> Masked:
        """A copy, of whose values somebody has made one already."""
        return Masked(values, self.kept.clone())

    def numbers(self) -> tuple[Tensor, ...]:
        return self.values.unbind()


@dataclass(frozen=True, eq=False)
class Packed(Compound):
    """:class:`Masked` as it travels: kept values end to end, ``pattern [K, ceil(n / 8)]`` bytes.

    It comes from outside, so nothing is made of it before a receiver who knows the shape has held
    it against that.
    """

    values: Ragged
    pattern: Tensor

    endings: ClassVar[tuple[str, ...]] = Masked.endings

    def unpacked(self, shape: torch.Size) -> Masked:
        """Tensors ``[K, *shape]`` with zeros where nothing was kept."""
        kept = _bits(self.pattern, shape)
        if min(self.values.sizes) == shape.numel():
            return Masked(self.values.values.view(-1, *shape), kept.view(-1, *shape))
        full = self.values.values.new_zeros(kept.numel())
        full.index_copy_(0, _where(kept), self.values.values)
        return Masked(full.view(-1, *shape), kept.view(-1, *shape))

    def filled(self, own_K: Tensor) -> Tensor:
        """``own_K`` with the kept entries in place of its own."""
        return self.unpacked(own_K.shape[1:]).filled(own_K)

    @property
    def clients(self) -> int:
        return len(self.pattern)

    def parts(self) -> tuple[Tensor, ...]:
        return *self.values.parts(), self.pattern

    @classmethod
    def of_parts(cls, *parts: Tensor) -> Packed:
        values, sizes, pattern = parts
        ragged = Ragged.of_parts(values, sizes)
        if values.dim() != 1 or pattern.dim() != 2 or len(pattern) != len(ragged.sizes):
            raise ValueError("a pattern that does not belong to its values")
        return cls(ragged, pattern)

    def columns(self) -> tuple[Column, ...]:
        return _columns(self.values.sizes, 8 * self.pattern.shape[1], self.values.values.dtype)

    def take(self, positions: Sequence[int]) -> Packed:
        return Packed(self.values.take(positions), self.pattern[list(positions)])

    @classmethod
    def joined(cls, leaves: Sequence[Packed]) -> Packed:
        pattern = torch.cat([leaf.pattern for leaf in leaves])
        return cls(Ragged.joined([leaf.values for leaf in leaves]), pattern)

    def clone(self) -> Packed:
        return Packed(self.values.clone(), self.pattern.clone())

    def numbers(self) -> tuple[Tensor, ...]:
        return self.values.blocks()


@dataclass(frozen=True, eq=False)
class MaskedLike(Like):
    """Some entries of a tensor of the shape and type of ``one``."""

    one: Tensor

    @property
    def largest(self) -> int:
        return self.one.numel() * (self.one.itemsize + 1) + 16

    def misfits(self, leaf: Any, clients: Sequence[int]) -> dict[int, str]:
        if isinstance(leaf, Masked):
            fits = leaf.values.shape[1:] == leaf.kept.shape[1:] == self.one.shape
            dtype = leaf.values.dtype
        elif isinstance(leaf, Packed):
            width, dtype = -(-self.one.numel() // 8), leaf.values.values.dtype
            fits = leaf.pattern.shape[1] == width and leaf.pattern.dtype == torch.uint8
        else:
            return everybody(clients, "is not masked")
        if not fits or dtype != self.one.dtype:
            return everybody(clients, f"is no part of {list(self.one.shape)} {self.one.dtype}")
        if isinstance(leaf, Masked):
            return {}
        counts = _bits(leaf.pattern, self.one.shape).sum(1).tolist()
        pairs = enumerate(zip(counts, leaf.values.sizes, strict=True))
        return {i: "has a pattern that does not fit its values" for i, (n, m) in pairs if n != m}

    def received(self, leaf: Any) -> Masked:
        return leaf if isinstance(leaf, Masked) else leaf.unpacked(self.one.shape)


def masked(values_K: Mapping[str, Tensor], kept_K: Mapping[str, Tensor]) -> dict[str, Any]:
    """Stacked parameters of which those named in ``kept_K`` are masked."""
    return {n: Masked(v, kept_K[n]) if n in kept_K else v for n, v in values_K.items()}


def unmasked(sent: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The inverse of :func:`masked`: values, zero where not kept, and what was kept."""
    values = {n: leaf.values if isinstance(leaf, Masked) else leaf for n, leaf in sent.items()}
    return values, {n: leaf.kept for n, leaf in sent.items() if isinstance(leaf, Masked)}


def masked_like(
    one: Mapping[str, Tensor], names: Collection[str]
) -> dict[str, Tensor | MaskedLike]:
    """What one client's parameters look like if those named are masked."""
    return {name: MaskedLike(p) if name in names else p for name, p in one.items()}


def filled(sent: Mapping[str, Any], own_K: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What was sent, with the client's own values where nothing was."""
    return {
        name: leaf.filled(own_K[name]) if isinstance(leaf, Masked | Packed) else leaf
        for name, leaf in sent.items()
    }


def thresholded(
    w_K: Mapping[str, Tensor], mask_K: Mapping[str, Tensor], threshold: float
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """``w * mask`` with entries of the mask below a threshold at zero, and which are not below.

    What has no mask stays as it is.
    """
    theta, kept = dict(w_K), {}
    for name, mask in mask_K.items():
        w = w_K[name]
        if fit(w, mask):
            theta[name], kept[name] = torch.empty_like(w), torch.empty_like(w, dtype=torch.bool)
            given = (array(t).reshape(-1) for t in (w, mask))
            made = (array(t).reshape(-1) for t in (theta[name], kept[name]))
            limit = torch.tensor(threshold, dtype=mask.dtype).item()
            kernels("masks").thresholded_product(*given, limit, *made)
        else:
            kept[name] = mask.abs() >= threshold
            theta[name] = w * (mask * kept[name].to(mask.dtype))
    return theta, kept


def _columns(sizes: tuple[int, ...], entries: int, dtype: torch.dtype) -> tuple[Column, ...]:
    pattern = Column("#pattern", (-(-entries // 8),), None, torch.uint8)
    return Column("", (), sizes, dtype), pattern


def _counts(kept_K: Tensor) -> tuple[int, ...]:
    """Of each row; torch would first write every truth value out as a number."""
    rows = kept_K.cpu().numpy()
    if np.count_nonzero(rows) == rows.size:
        return (rows.size // max(len(rows), 1),) * len(rows)
    return tuple(int(np.count_nonzero(kept)) for kept in rows)


def _where(kept: Tensor) -> Tensor:
    """The places of what is kept, whose use takes a third of the time of truth values'."""
    return of_numpy(np.flatnonzero(kept.cpu().numpy()))


def _bits(pattern_K: Tensor, shape: torch.Size) -> Tensor:
    bits = np.unpackbits(pattern_K.cpu().numpy(), axis=1, count=shape.numel())
    return of_numpy(bits).bool()
