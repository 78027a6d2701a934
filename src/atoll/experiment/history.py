"""What happened, round by round and client by client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars

from atoll.errors import AtollError
from atoll.federation.protocol import Replies
from atoll.graph import SPLITS

_COUNT = "metric/nodes"


@dataclass
class History:
    """Scores per round and client, and seconds and bytes per round.

    Whatever ``metric/NAME [K, 3]`` a method measures becomes three columns, ``train_NAME``,
    ``val_NAME`` and ``test_NAME``. ``metric`` is the one by which the best round is chosen.
    """

    metric: str = "accuracy"
    scores: list[polars.DataFrame] = field(default_factory=list)
    rounds: list[dict[str, Any]] = field(default_factory=list)
    # Rounds not yet in a frame: one frame per round costs more than a round of a small federation.
    fresh: list[dict[str, np.ndarray]] = field(default_factory=list)

    def add(self, round: int, replies: Replies | None, seconds: float, up: int, down: int) -> float:
        """Record a round, scored or not; returns the mean validation score over clients."""
        self.rounds.append({"round": round, "seconds": seconds, "bytes_up": up, "bytes_down": down})
        if replies is None:
            return float("nan")
        nodes = np.asarray(replies.body[_COUNT])
        columns = {
            "round": np.full(len(replies.clients), round),
            "client": np.array(replies.clients),
        }
        for name, leaf in replies.body.items():
            if name == _COUNT:
                continue
            # A client without nodes in a split has no score there, not a score of zero.
            values = np.where(nodes > 0, np.asarray(leaf), np.nan)
            metric = name.removeprefix("metric/")
            for i, split in enumerate(SPLITS):
                columns[f"{split}_{metric}"] = values[:, i]
        self.fresh.append(columns)
        known = columns[f"val_{self.metric}"]
        known = known[~np.isnan(known)]
        return float(known.mean()) if len(known) else float("nan")

    def restore(self, scores: polars.DataFrame, rounds: polars.DataFrame, last: int) -> None:
        """Continue from the tables of a run, up to a round."""
        until = polars.col("round") <= last
        # A run without scores so far has left a table without columns.
        self.scores = [scores.filter(until)] if scores.width else []
        self.rounds = rounds.filter(until).to_dicts()

    def table(self) -> polars.DataFrame:
        """One row per scored round and client."""
        if self.fresh:
            columns = {
                name: np.concatenate([part[name] for part in self.fresh]) for name in self.fresh[0]
            }
            self.scores.append(polars.DataFrame(columns, nan_to_null=True))
            self.fresh = []
        if len(self.scores) > 1:
            self.scores = [polars.concat(self.scores)]
        return self.scores[0] if self.scores else polars.DataFrame()

    def best(self) -> Best:
        """The first round with the best mean validation score, and the scores there.

        Means are over clients, each counting the same; the test figure is read where validation
        is best, never where the test is.
        """
        table, val = self.table(), f"val_{self.metric}"
        means = table.group_by("round").agg(polars.col(val).mean()).sort("round")
        top = means[val].arg_max()
        if top is None:
            raise AtollError(
                "no client has a validation node, so no round can be chosen; give split.val more."
            )
        at_best = table.filter(polars.col("round") == means["round"][top]).sort("client")
        return Best(int(means["round"][top]), at_best)


@dataclass(frozen=True)
class Best:
    """The scores of every client in the best round."""

    round: int
    scores: polars.DataFrame

    def mean(self, column: str) -> float:
        value = self.scores[column].mean()
        return float("nan") if value is None else float(value)  # type: ignore[arg-type]

    def std(self, column: str) -> float:
        """Standard deviation over clients; zero where there is only one."""
        value = self.scores[column].std(ddof=0)
        return float("nan") if value is None else float(value)  # type: ignore[arg-type]
