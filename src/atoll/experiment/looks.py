"""What a run keeps to be drawn: how alike its clients are, and what test nodes are taken for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import polars
from torch import Tensor

from atoll.tasks.confusion import confusion_table, precision_recall_table
from atoll.tasks.pooled import Listener

SIMILARITY, CONFUSION, CURVES = "similarity", "confusion", "precision_recall"
TABLES = (SIMILARITY, CONFUSION, CURVES)
_MOST_MATRICES = 50
_MOST_CLIENTS = 100
Tables = Mapping[str, polars.DataFrame]


@dataclass
class Looks:
    """Similarities of at most 50 rounds; test nodes' classes in the best round and in the last.

    The latter are kept as they were heard and become tables when these are first written: a round
    that is the best for a moment only costs nothing, and what was heard, every node's scores, is
    not kept for longer.
    """

    rounds: int = 1
    alike: dict[int, np.ndarray] = field(default_factory=dict)
    heard: dict[int, Listener | Tables] = field(default_factory=dict)

    def see(self, round: int, similarities: Callable[[], Tensor | None], last: bool) -> None:
        """How alike clients are after a round ``[K, K]``, if it is one of those to be kept."""
        every = -(-self.rounds // _MOST_MATRICES)
        if not (last or round == 1 or round % every == 0):
            return
        between = similarities()
        if between is not None and len(between) <= _MOST_CLIENTS:
            self.alike[round] = between.detach().float().cpu().numpy().copy()

    def hear(self, round: int, listener: Listener, leads: bool) -> None:
        """What was scored in a round that is the best so far, or the last."""
        if leads:
            self.heard.clear()
        if listener.heard:
            self.heard[round] = listener

    def tables(self) -> dict[str, polars.DataFrame]:
        """Those that there is something in."""
        shown = {
            r: _tables(r, look) if isinstance(look, Listener) else look
            for r, look in self.heard.items()
        }
        self.heard.update(shown)
        found = {SIMILARITY: self._similarity()}
        for name in (CONFUSION, CURVES):
            parts = [look[name] for look in shown.values() if look[name].width > 1]
            found[name] = polars.concat(parts) if parts else polars.DataFrame()
        return {name: table for name, table in found.items() if not table.is_empty()}

    def restore(self, tables: Tables, last: int) -> None:
        """Continue from the tables of a run, up to a round."""
        until = {n: t.filter(polars.col("round") <= last) for n, t in tables.items() if t.width}
        for round, *_, between in until.pop(SIMILARITY, polars.DataFrame()).iter_rows():
            k = round_root(len(between))
            self.alike[round] = np.array(between, dtype=np.float32).reshape(k, k)
        rounds = sorted({r for table in until.values() for r in table["round"]})
        for r in rounds:
            at = polars.col("round") == r
            empty = polars.DataFrame()
            self.heard[r] = {
                n: until[n].filter(at) if n in until else empty for n in (CONFUSION, CURVES)
            }

    def _similarity(self) -> polars.DataFrame:
        """One row per round: ``between`` has the matrix row by row."""
        if not self.alike:
            return polars.DataFrame()
        rows = [matrix.reshape(-1).tolist() for matrix in self.alike.values()]
        between = polars.Series("between", rows, dtype=polars.List(polars.Float32))
        return polars.DataFrame({"round": list(self.alike), "between": between})


def _tables(round: int, heard: Listener) -> Tables:
    """What was scored in a round, as tables that say which it was."""
    made = {CONFUSION: confusion_table(heard), CURVES: precision_recall_table(heard)}
    which = polars.lit(round, polars.Int64)
    return {name: table.with_columns(round=which) for name, table in made.items()}


def round_root(count: int) -> int:
    """The side of a square matrix of so many entries."""
    return math.isqrt(count)
