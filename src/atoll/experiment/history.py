"""What happened, round by round and client by client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars

from atoll.cohort import SPLITS
from atoll.errors import AtollError
from atoll.federation.protocol import Replies

_METRICS = ("accuracy", "loss")
COLUMNS = ("round", "client", *(f"{s}_{m}" for m in _METRICS for s in SPLITS))


@dataclass
class History:
    """Scores a round and client, and seconds and bytes a round."""

    scores: list[polars.DataFrame] = field(default_factory=list)
    rounds: list[dict[str, Any]] = field(default_factory=list)

    def add(self, round: int, replies: Replies, seconds: float, up: int, down: int) -> float:
        """Record a round; returns the mean validation accuracy over clients."""
        nodes = _numpy(replies, "nodes")
        columns: dict[str, Any] = {
            "round": np.full(len(replies.clients), round),
            "client": np.array(replies.clients),
        }
        for metric in _METRICS:
            # A client without nodes in a split has no score there, not a score of zero.
            values = np.where(nodes > 0, _numpy(replies, metric), np.nan)
            for i, split in enumerate(SPLITS):
                columns[f"{split}_{metric}"] = values[:, i]
        self.scores.append(polars.DataFrame(columns).fill_nan(None))
        self.rounds.append({"round": round, "seconds": seconds, "bytes_up": up, "bytes_down": down})
        mean = self.scores[-1]["val_accuracy"].mean()
        return float("nan") if mean is None else float(mean)  # type: ignore[arg-type]

    def table(self) -> polars.DataFrame:
        """One row a round and client."""
        return polars.concat(self.scores) if self.scores else polars.DataFrame(schema=COLUMNS)

    def best(self) -> Best:
        """The first round with the best mean validation accuracy, and the scores there.

        Means are over clients, each counting the same; the test figure is read where validation
        is best, never where the test is.
        """
        table = self.table()
        means = table.group_by("round").agg(polars.col("val_accuracy").mean()).sort("round")
        top = means["val_accuracy"].arg_max()
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

    def spread(self, column: str) -> float:
        """Standard deviation over clients; zero where there is only one."""
        value = self.scores[column].std(ddof=0)
        return float("nan") if value is None else float(value)  # type: ignore[arg-type]


def _numpy(replies: Replies, metric: str) -> np.ndarray:
    leaf = replies.body[f"metric/{metric}"]
    return np.asarray(leaf)
