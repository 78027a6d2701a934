"""The record of every tensor that crosses between the server and a client."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import polars
import torch
from torch import Tensor

from atoll.tree import Leaf, kind

Direction = Literal["up", "down"]
# By which verb of the protocol: the server sees every reply, or their sum only.
Verb = Literal["ask", "sum"]
# Scoring belongs to the experiment, not to the method: it is on record but not billed.
UNBILLED_STEP = "evaluate"
_TEXTS = ("step", "direction", "name", "kind", "shape", "dtype", "verb")
_COLUMNS = (
    "round",
    "step",
    "client",
    "direction",
    "name",
    "kind",
    "shape",
    "dtype",
    "bytes",
    "verb",
)


@dataclass(frozen=True)
class Entry:
    """One named tensor sent alike to or by several clients in one request.

    ``shape`` is that of one client's tensor; where it is ragged, that of one of its rows, of which
    the clients have ``sizes``.
    """

    round: int
    step: str
    direction: Direction
    name: str
    clients: tuple[int, ...]
    shape: tuple[int, ...]
    sizes: tuple[int, ...] | None
    dtype: str
    itemsize: int
    verb: Verb

    @property
    def unit(self) -> int:
        """The bytes of one shape."""
        return self.itemsize * math.prod(self.shape)

    @property
    def total(self) -> int:
        return self.unit * (len(self.clients) if self.sizes is None else sum(self.sizes))


@dataclass
class Ledger:
    """What crossed, entry by entry; totals and a table with one row per tensor and client."""

    entries: list[Entry] = field(default_factory=list)
    before: polars.DataFrame | None = None  # what a resumed run had recorded already
    verb: Verb = "ask"  # of the request that is being recorded

    def sent(
        self,
        round: int,
        step: str,
        clients: tuple[int, ...],
        shared: Mapping[str, Leaf],
        each: Mapping[str, Leaf],
    ) -> None:
        for name, leaf in shared.items():
            if not isinstance(leaf, Tensor):
                raise TypeError(f"'{name}' can't be sent to all alike; it is not a plain tensor")
            self._add(round, step, "down", name, clients, leaf.shape, None, leaf.dtype)
        self._add_rows(round, step, "down", clients, each)

    def never_came(self, round: int, step: str, clients: Collection[int]) -> None:
        """Take off the record what was last sent to clients that never got it."""
        for i in range(len(self.entries) - 1, -1, -1):
            entry = self.entries[i]
            if (entry.round, entry.step, entry.direction) != (round, step, "down") or not clients:
                return
            stay = [k for k, client in enumerate(entry.clients) if client not in clients]
            sizes = entry.sizes and tuple(entry.sizes[k] for k in stay)
            left = tuple(entry.clients[k] for k in stay)
            self.entries[i] = replace(entry, clients=left, sizes=sizes)

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
        """One row per tensor and client."""
        entries = self.entries
        counts = [len(e.clients) for e in entries]
        # Column by column, each entry's text once: a long run of many clients has millions of rows.
        once = polars.DataFrame(
            {
                "round": [e.round for e in entries],
                "step": [e.step for e in entries],
                "direction": [e.direction for e in entries],
                "name": [e.name for e in entries],
                "kind": [kind(e.name) for e in entries],
                "shape": [_text(e) for e in entries],
                "dtype": [e.dtype for e in entries],
                "bytes": [e.unit for e in entries],
                "verb": [e.verb for e in entries],
            },
            schema_overrides={"round": polars.Int64, "bytes": polars.Int64}
            | dict.fromkeys(_TEXTS, polars.String),
        )
        table = once[np.repeat(np.arange(len(entries)), counts)].with_columns(
            client=_end_to_end([e.clients for e in entries]),
            rows=_end_to_end([e.sizes or (-1,) * n for e, n in zip(entries, counts, strict=True)]),
        )
        ragged = polars.col("rows") >= 0
        table = table.with_columns(
            shape=polars.when(ragged)
            .then(polars.format("[{}{}]", "rows", "shape"))
            .otherwise(polars.col("shape")),
            bytes=polars.when(ragged)
            .then(polars.col("rows") * polars.col("bytes"))
            .otherwise("bytes"),
        ).select(_COLUMNS)
        # What older versions recorded has no verbs.
        return table if self.before is None else polars.concat([self.before, table], how="diagonal")

    def _add_rows(
        self,
        round: int,
        step: str,
        direction: Direction,
        clients: tuple[int, ...],
        rows: Mapping[str, Leaf],
    ) -> None:
        for name, leaf in rows.items():
            if isinstance(leaf, Tensor):
                self._add(round, step, direction, name, clients, leaf.shape[1:], None, leaf.dtype)
                continue
            for ending, shape, sizes, dtype in leaf.columns():
                self._add(round, step, direction, name + ending, clients, shape, sizes, dtype)

    def _add(
        self,
        round: int,
        step: str,
        direction: Direction,
        name: str,
        clients: tuple[int, ...],
        shape: tuple[int, ...],
        sizes: tuple[int, ...] | None,
        dtype: torch.dtype,
    ) -> None:
        short = str(dtype).removeprefix("torch.")
        size = dtype.itemsize
        self.entries.append(
            Entry(
                round, step, direction, name, clients, tuple(shape), sizes, short, size, self.verb
            )
        )


def _text(entry: Entry) -> str:
    """A shape as text; of a ragged one all that follows the number of rows."""
    return str(list(entry.shape)) if entry.sizes is None else "".join(f", {n}" for n in entry.shape)


def _end_to_end(tuples: Sequence[tuple[int, ...]]) -> np.ndarray:
    """All numbers in one array; requests to the same clients share a tuple, converted once."""
    arrays: dict[int, np.ndarray] = {}
    for numbers in tuples:
        if id(numbers) not in arrays:
            arrays[id(numbers)] = np.array(numbers, dtype=np.int64)
    none = np.zeros(0, dtype=np.int64)
    return np.concatenate([none, *(arrays[id(numbers)] for numbers in tuples)])
