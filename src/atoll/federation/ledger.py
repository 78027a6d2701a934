"""The record of every tensor that crosses between the server and a client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import polars
import torch
from torch import Tensor

from atoll.tree import Leaf, Ragged, kind

Direction = Literal["up", "down"]
# Scoring belongs to the experiment, not to the method: it is on record but not billed.
UNBILLED_STEP = "evaluate"
_SCHEMA = {
    "round": polars.Int64,
    "step": polars.String,
    "client": polars.Int64,
    "direction": polars.String,
    "name": polars.String,
    "kind": polars.String,
    "shape": polars.String,
    "dtype": polars.String,
    "bytes": polars.Int64,
}


@dataclass(frozen=True)
class Entry:
    """One named tensor sent alike to or by several clients in one request."""

    round: int
    step: str
    direction: Direction
    name: str
    clients: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    itemsize: int

    def bytes(self, shape: tuple[int, ...]) -> int:
        return self.itemsize * int(torch.Size(shape).numel())

    @property
    def total(self) -> int:
        return sum(self.bytes(shape) for shape in self.shapes)


@dataclass
class Ledger:
    """What crossed, entry by entry; totals and a table with one row a tensor and client."""

    entries: list[Entry] = field(default_factory=list)
    before: polars.DataFrame | None = None  # what a resumed run had recorded already

    def sent(
        self,
        round: int,
        step: str,
        clients: tuple[int, ...],
        shared: Mapping[str, Leaf],
        each: Mapping[str, Leaf],
    ) -> None:
        for name, leaf in shared.items():
            values = leaf.values if isinstance(leaf, Ragged) else leaf
            shapes = (tuple(values.shape),) * len(clients)
            self._add(round, step, "down", name, clients, shapes, values.dtype)
        self._add_rows(round, step, "down", clients, each)

    def received(
        self,
        round: int,
        step: str,
        clients: tuple[int, ...],
        body: Mapping[str, Leaf],
        weight: Tensor | None,
    ) -> None:
        self._add_rows(round, step, "up", clients, body)
        if weight is not None:
            self._add_rows(round, step, "up", clients, {"weight": weight})

    def bytes(self, direction: Direction, since: int = 0) -> int:
        """What the method itself sent in one direction, from entry ``since`` on."""
        return sum(
            entry.total
            for entry in self.entries[since:]
            if entry.direction == direction and entry.step != UNBILLED_STEP
        )

    def table(self) -> polars.DataFrame:
        """One row a tensor and client."""
        rows = [
            (e.round, e.step, client, e.direction, e.name, kind(e.name), str(list(shape)), e.dtype,
             e.bytes(shape))
            for e in self.entries
            for client, shape in zip(e.clients, e.shapes, strict=True)
        ]  # fmt: skip
        table = polars.DataFrame(rows, schema=_SCHEMA, orient="row")
        return table if self.before is None else polars.concat([self.before, table])

    def _add_rows(
        self,
        round: int,
        step: str,
        direction: Direction,
        clients: tuple[int, ...],
        rows: Mapping[str, Leaf],
    ) -> None:
        for name, leaf in rows.items():
            if isinstance(leaf, Ragged):
                width = tuple(leaf.values.shape[1:])
                shapes = tuple((size, *width) for size in leaf.sizes)
                self._add(round, step, direction, name, clients, shapes, leaf.values.dtype)
            else:
                shapes = (tuple(leaf.shape[1:]),) * len(clients)
                self._add(round, step, direction, name, clients, shapes, leaf.dtype)

    def _add(
        self,
        round: int,
        step: str,
        direction: Direction,
        name: str,
        clients: tuple[int, ...],
        shapes: tuple[tuple[int, ...], ...],
        dtype: torch.dtype,
    ) -> None:
        short = str(dtype).removeprefix("torch.")
        size = torch.empty(0, dtype=dtype).element_size()
        self.entries.append(Entry(round, step, direction, name, clients, shapes, short, size))
