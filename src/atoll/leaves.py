"""Leaves of a tree that are more than one tensor. Each packs, unpacks and checks itself.

A leaf holds K clients' parts. What one client's part must look like is said by a :class:`Like`
(or, for a plain tensor, by a tensor of the shape and type of one part); it names the clients whose
parts do not fit, each with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor


class Column(NamedTuple):
    """What a ledger writes of a leaf: a name's ending, one part's shape, rows per client."""

    ending: str
    shape: tuple[int, ...]
    sizes: tuple[int, ...] | None
    dtype: torch.dtype


class Compound:
    """A leaf of several tensors: what :mod:`atoll.tree` and the wire need to know of it.

    No ABC, whose instance checks are slow, and these are many.
    """

    # The endings of its tensors' names in files and on wires; the first one is its own.
    endings: ClassVar[tuple[str, ...]]

    @property
    def clients(self) -> int:
        """How many clients' parts it holds."""
        raise NotImplementedError("abstract")

    def parts(self) -> tuple[Tensor, ...]:
        """Plain tensors for files and wires, in the order of ``endings``."""
        raise NotImplementedError("abstract")

    @classmethod
    def of_parts(cls, *parts: Tensor) -> Compound:
        """The inverse of :meth:`parts`; a ValueError where they do not belong together."""
        raise NotImplementedError("abstract")

    def columns(self) -> tuple[Column, ...]:
        """What crosses where this leaf does."""
        raise NotImplementedError("abstract")

    def take(self, positions: Sequence[int]) -> Self:
        """Some clients' parts."""
        raise NotImplementedError("abstract")

    @classmethod
    def joined(cls, leaves: Sequence[Any]) -> Compound:
        """Several leaves along the axis of clients."""
        raise NotImplementedError("abstract")

    def clone(self) -> Self:
        """The same without shared memory."""
        raise NotImplementedError("abstract")

    def numbers(self) -> tuple[Tensor, ...]:
        """Each client's values, for a look at whether they are finite."""
        raise NotImplementedError("abstract")


class Like:
    """What one client's part of a leaf must look like."""

    def misfits(self, leaf: Any, clients: Sequence[int]) -> dict[int, str]:
        """The positions of the clients whose part does not fit, and why."""
        raise NotImplementedError("abstract")

    @property
    def largest(self) -> int | None:
        """How many bytes a part that fits has at most; None where it may have any number."""
        return None

    def received(self, leaf: Any) -> Any:
        """A leaf that fits, as the receiver wants to have it."""
        return leaf


@dataclass(frozen=True, eq=False)
class Within(Like):
    """A plain tensor of the shape and type of ``one`` whose numbers lie in ``[low, high]``."""

    one: Tensor
    low: float
    high: float

    @property
    def largest(self) -> int:
        return self.one.numel() * self.one.itemsize

    def misfits(self, leaf: Any, clients: Sequence[int]) -> dict[int, str]:
        if not isinstance(leaf, Tensor) or leaf.shape != (len(clients), *self.one.shape):
            return everybody(clients, f"does not have the shape {list(self.one.shape)} per client")
        if leaf.dtype != self.one.dtype:
            return everybody(clients, f"is {leaf.dtype}, not {self.one.dtype}")
        if leaf.numel():
            least, most = leaf.aminmax()  # of what is not a number both are none either
            if least >= self.low and most <= self.high:
                return {}
        good = ((leaf >= self.low) & (leaf <= self.high)).reshape(len(clients), -1).all(1)
        reason = f"has numbers outside {self.low:g} to {self.high:g}"
        return {i: reason for i, fits in enumerate(good.tolist()) if not fits}


def everybody(clients: Sequence[int], reason: str) -> dict[int, str]:
    return dict.fromkeys(range(len(clients)), reason)


@dataclass(frozen=True, eq=False)
class Ragged(Compound):
    """One block of rows per client: ``values [sum(sizes), ...]``, ``sizes [clients]``."""

    values: Tensor
    sizes: tuple[int, ...]

    endings: ClassVar[tuple[str, ...]] = ("#values", "#sizes")

    @classmethod
    def of(cls, blocks: Sequence[Tensor]) -> Ragged:
        """Blocks end to end; there is at least one."""
        return cls(torch.cat(list(blocks)), tuple(len(block) for block in blocks))

    @classmethod
    def empty(cls, k: int, *row: int, dtype: torch.dtype) -> Ragged:
        """No rows of K clients."""
        return cls(torch.zeros(0, *row, dtype=dtype), (0,) * k)

    @property
    def clients(self) -> int:
        return len(self.sizes)

    def blocks(self) -> tuple[Tensor, ...]:
        return torch.split(self.values, list(self.sizes))

    def replaced(self, positions: Sequence[int], new: Ragged) -> Ragged:
        """The same with some clients' blocks replaced by those of ``new``."""
        blocks = list(self.blocks())
        for position, block in zip(positions, new.blocks(), strict=True):
            blocks[position] = block
        return Ragged.of(blocks)

    def parts(self) -> tuple[Tensor, ...]:
        return self.values.detach().contiguous(), torch.tensor(self.sizes, dtype=torch.int64)

    @classmethod
    def of_parts(cls, *parts: Tensor) -> Ragged:
        values, sizes = parts
        return cls(values, _sizes(sizes, len(values) if values.dim() else -1))

    def columns(self) -> tuple[Column, ...]:
        return (Column("", tuple(self.values.shape[1:]), self.sizes, self.values.dtype),)

    def take(self, positions: Sequence[int]) -> Ragged:
        blocks = self.blocks()
        chosen = [blocks[p] for p in positions]
        values = torch.cat(chosen) if chosen else self.values[:0]
        return Ragged(values, tuple(self.sizes[p] for p in positions))

    @classmethod
    def joined(cls, leaves: Sequence[Ragged]) -> Ragged:
        sizes = tuple(size for leaf in leaves for size in leaf.sizes)
        return cls(torch.cat([leaf.values for leaf in leaves]), sizes)

    def clone(self) -> Ragged:
        return Ragged(self.values.clone(), self.sizes)

    def numbers(self) -> tuple[Tensor, ...]:
        return self.blocks()


@dataclass(frozen=True, eq=False)
class RaggedLike(Like):
    """Rows that look like ``row``: any number, ``at_most`` some, or ``exactly[client]``."""

    row: Tensor
    at_most: int | None = None
    exactly: Mapping[int, int] | None = None

    @property
    def largest(self) -> int | None:
        rows = self.at_most
        if self.exactly is not None:
            rows = max(self.exactly.values(), default=0)
        return None if rows is None else rows * self.row.numel() * self.row.itemsize + 8

    def misfits(self, leaf: Any, clients: Sequence[int]) -> dict[int, str]:
        if not isinstance(leaf, Ragged):
            return everybody(clients, "is not ragged")
        if tuple(leaf.values.shape[1:]) != tuple(self.row.shape):
            have, want = list(leaf.values.shape[1:]), list(self.row.shape)
            return everybody(clients, f"has rows of shape {have}, not {want}")
        if leaf.values.dtype != self.row.dtype:
            return everybody(clients, f"is {leaf.values.dtype}, not {self.row.dtype}")
        bad: dict[int, str] = {}
        for i, (client, size) in enumerate(zip(clients, leaf.sizes, strict=True)):
            if self.at_most is not None and size > self.at_most:
                bad[i] = f"has {size} rows where at most {self.at_most} are due"
            if self.exactly is not None and size != self.exactly[client]:
                bad[i] = f"has {size} rows where {self.exactly[client]} are due"
        return bad


@dataclass(frozen=True, eq=False)
class Rows(Compound):
    """Some rows per client of tables ``[n, ...]`` whose other rows are zero.

    ``rows`` are the values, ``at`` their row numbers (int32, ascending per client), both ragged.
    """

    at: Ragged
    rows: Ragged

    endings: ClassVar[tuple[str, ...]] = ("#rows", "#at", "#counts")

    @property
    def clients(self) -> int:
        return len(self.at.sizes)

    def parts(self) -> tuple[Tensor, ...]:
        return self.rows.parts()[0], *self.at.parts()

    @classmethod
    def of_parts(cls, *parts: Tensor) -> Rows:
        values, at, counts = parts
        return cls(Ragged.of_parts(at, counts), Ragged.of_parts(values, counts))

    def columns(self) -> tuple[Column, ...]:
        (rows,), (at,) = self.rows.columns(), self.at.columns()
        return rows, at._replace(ending="#at")

    def take(self, positions: Sequence[int]) -> Rows:
        return Rows(self.at.take(positions), self.rows.take(positions))

    @classmethod
    def joined(cls, leaves: Sequence[Rows]) -> Rows:
        at = Ragged.joined([leaf.at for leaf in leaves])
        return cls(at, Ragged.joined([leaf.rows for leaf in leaves]))

    def clone(self) -> Rows:
        return Rows(self.at.clone(), self.rows.clone())

    def numbers(self) -> tuple[Tensor, ...]:
        return self.rows.blocks()


@dataclass(frozen=True, eq=False)
class RowsLike(Like):
    """Rows of a table of ``length`` rows that look like ``row``, named by ascending numbers."""

    row: Tensor
    length: int

    @property
    def largest(self) -> int:
        return self.length * (self.row.numel() * self.row.itemsize + 4) + 8

    def misfits(self, leaf: Any, clients: Sequence[int]) -> dict[int, str]:
        if not isinstance(leaf, Rows):
            return everybody(clients, "is not made of rows of a table")
        bad = RaggedLike(self.row).misfits(leaf.rows, clients)
        bad |= RaggedLike(torch.zeros((), dtype=torch.int32)).misfits(leaf.at, clients)
        if bad:
            return bad
        at, sizes = leaf.at.values.cpu().numpy(), np.asarray(leaf.at.sizes)
        if np.any(sizes != np.asarray(leaf.rows.sizes)):
            return everybody(clients, "has other numbers than rows")
        client = np.repeat(np.arange(len(sizes)), sizes)
        wrong = (at < 0) | (at >= self.length)
        wrong[1:] |= (at[1:] <= at[:-1]) & (client[1:] == client[:-1])
        reason = f"has row numbers that are not ascending from 0 to {self.length - 1}"
        return {int(i): reason for i in np.unique(client[wrong])}


def _sizes(sizes: Tensor, rows: int) -> tuple[int, ...]:
    """Rows per client as they came from outside."""
    if sizes.dim() != 1 or sizes.dtype != torch.int64:
        raise ValueError("sizes that are no list of whole numbers")
    found = tuple(sizes.tolist())
    if min(found, default=0) < 0 or sum(found) != rows:
        raise ValueError("sizes that do not fit")
    return found
