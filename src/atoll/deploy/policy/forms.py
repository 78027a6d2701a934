"""The form of what crosses: names, types and shapes of a tree's leaves, without their values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from atoll.tree import Leaf

ANY = -1  # a length that depends on a party's own sizes


@dataclass(frozen=True)
class Part:
    """One tensor of a leaf: the ending of its name, its type, and its shape, rows included.

    Where every node or entity has a row of its own, ``ragged`` says so and the first length is
    :data:`ANY`.
    """

    ending: str
    dtype: str
    shape: tuple[int, ...]
    ragged: bool

    def fits(self, declared: Part) -> bool:
        return self.key == declared.key and all(
            due in (ANY, found) for found, due in zip(self.shape, declared.shape, strict=True)
        )

    def merged(self, other: Part) -> Part:
        """With every length free that is not the same in both."""
        shape = tuple(a if a == b else ANY for a, b in zip(self.shape, other.shape, strict=True))
        return Part(self.ending, self.dtype, shape, self.ragged)

    @property
    def key(self) -> tuple[Any, ...]:
        return self.ending, self.dtype, len(self.shape), self.ragged

    @property
    def width(self) -> int:
        """The numbers that one row has, where there are as many rows as a party has of something;
        0 where there are no such rows."""
        rows = [axis for axis, length in enumerate(self.shape) if length == ANY]
        return math.prod(self.shape[rows[-1] + 1 :]) if rows else 0

    @property
    def fixed_bytes(self) -> int:
        """The bytes that can be told from the form alone."""
        size: int = getattr(torch, self.dtype).itemsize
        return 0 if ANY in self.shape else size * math.prod(self.shape)

    @property
    def text(self) -> str:
        inner = ", ".join("*" if n == ANY else str(n) for n in self.shape)
        return f"[{inner}] {self.dtype}"


Form = tuple[Part, ...]


def form_of(leaf: Leaf) -> Form:
    """The form of one client's leaf as it crosses."""
    if isinstance(leaf, Tensor):
        return (Part("", _short(leaf.dtype), tuple(leaf.shape), False),)
    return tuple(
        Part(
            column.ending,
            _short(column.dtype),
            (ANY, *column.shape) if column.sizes is not None else tuple(column.shape),
            column.sizes is not None,
        )
        for column in leaf.columns()
    )


def forms_of(tree: Mapping[str, Leaf]) -> dict[str, Form]:
    return {name: form_of(leaf) for name, leaf in tree.items()}


def misfit(found: Mapping[str, Form], declared: Mapping[str, Form]) -> str:
    """What is not as declared, or nothing."""
    odd = sorted(set(found) ^ set(declared))
    if odd:
        return f"'{odd[0]}' is {'not declared' if odd[0] in found else 'missing'}"
    for name, form in found.items():
        due = declared[name]
        if len(form) != len(due) or not all(a.fits(b) for a, b in zip(form, due, strict=True)):
            have, want = (" and ".join(p.text for p in parts) for parts in (form, due))
            return f"'{name}' is {have}, not {want}"
    return ""


def size_of(tree: Mapping[str, Leaf]) -> int:
    """The bytes of a tree's values."""
    total = 0
    for leaf in tree.values():
        parts = (leaf,) if isinstance(leaf, Tensor) else leaf.parts()
        total += sum(part.numel() * part.itemsize for part in parts)
    return total


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
