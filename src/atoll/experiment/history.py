"""What happened, round by round and client by client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars

from atoll.device import to_numpy
from atoll.errors import AtollError
from atoll.experiment.looks import Looks
from atoll.federation.calls import Replies
from atoll.graph import SPLITS
from atoll.tasks.metrics import NO_SCORE, RANKING, best_of, better
from atoll.tasks.pooled import OverAll

_COUNT, _EXTENDED = "metric/nodes", "metric/extended"


@dataclass(frozen=True)
class Spent:
    """Each client's releases and epsilon after a round; ``releases`` in the order of clients."""

    releases: list[int]
    epsilon: dict[int, float]

    @property
    def most(self) -> float:
        return max(self.epsilon.values(), default=0.0)


@dataclass
class History:
    """Scores per round and client, and seconds and bytes per round.

    Whatever ``metric/NAME [K, 3]`` a method measures becomes three columns, ``train_NAME``,
    ``val_NAME`` and ``test_NAME``, as does each of the ``extended`` scores, which come in one leaf.
    ``metric`` is the one by which the best round is chosen. ``over_all`` has scores of all test
    nodes together, of the rounds that were the best so far and of the last.
    """

    metric: str = "accuracy"
    extended: tuple[str, ...] = ()
    scores: list[polars.DataFrame] = field(default_factory=list)
    rounds: list[dict[str, Any]] = field(default_factory=list)
    # Rounds not yet in a frame: one frame per round costs more than a round of a small federation.
    fresh: list[dict[str, np.ndarray]] = field(default_factory=list)
    over_all: list[dict[str, Any]] = field(default_factory=list)
    top: float = float("nan")  # the best mean validation score so far
    looks: Looks = field(default_factory=Looks)

    def add(
        self,
        round: int,
        replies: Replies | None,
        seconds: float,
        up: int,
        down: int,
        spent: Spent | None = None,
    ) -> float:
        """Record a round, scored or not; returns the mean validation score over clients."""
        row: dict[str, Any] = {
            "round": round,
            "seconds": seconds,
            "bytes_up": up,
            "bytes_down": down,
        }
        if spent is not None:
            row |= {"epsilon": spent.most, "releases": spent.releases}
        self.rounds.append(row)
        if replies is None:
            return float("nan")
        nodes = to_numpy(replies.body[_COUNT])
        columns = {
            "round": np.full(len(replies.clients), round),
            "client": np.array(replies.clients),
        }
        for name, leaf in replies.body.items():
            if name == _COUNT:
                continue
            # A client without nodes in a split has no score there, not a score of zero.
            if name == _EXTENDED:
                values = to_numpy(leaf)
                values = np.where((nodes[:, :, None] > 0) & (values != NO_SCORE), values, np.nan)
                named = {metric: values[:, :, j] for j, metric in enumerate(self.extended)}
            else:
                values = np.where(nodes > 0, to_numpy(leaf), np.nan)
                named = {name.removeprefix("metric/"): values}
            for metric, column in named.items():
                for i, split in enumerate(SPLITS):
                    columns[f"{split}_{metric}"] = column[:, i]
        if spent is not None:
            columns["epsilon"] = np.array([spent.epsilon[client] for client in replies.clients])
        self.fresh.append(columns)
        known = columns[f"val_{self.metric}"]
        known = known[~np.isnan(known)]
        return float(known.mean()) if len(known) else float("nan")

    def latest(self) -> Mapping[str, np.ndarray]:
        """The scores of the round that was added last, one per client; empty if it has none."""
        scored = self.fresh and self.fresh[-1]["round"][0] == self.rounds[-1]["round"]
        return self.fresh[-1] if scored else {}

    def leads(self, val: float) -> bool:
        """Whether a round's mean validation score is better than those of the rounds before."""
        first = self.top != self.top
        if val != val or not (first or better(self.metric, val, self.top)):
            return False
        self.top = val
        return True

    def amend(self, ranking: Mapping[int, np.ndarray]) -> None:
        """Areas and recall of clients ``[3, splits]`` in the round that was added last."""
        if not ranking or not self.fresh:
            return
        columns = self.fresh[-1]
        found = np.stack([ranking[client] for client in columns["client"].tolist()])
        for j, metric in enumerate(RANKING):
            for i, split in enumerate(SPLITS):
                columns[f"{split}_{metric}"] = np.where(
                    found[:, j, i] != NO_SCORE, found[:, j, i], np.nan
                )

    def add_over_all(self, round: int, found: OverAll) -> None:
        """Scores of all test nodes together in a round."""
        named = {f"test_{name}": score for name, score in found.scores.items()}
        missed = list(found.never_predicted)
        self.over_all.append({"round": round, **named, "never_predicted": missed})

    def restore(
        self,
        scores: polars.DataFrame,
        rounds: polars.DataFrame,
        over_all: polars.DataFrame,
        last: int,
    ) -> None:
        """Continue from the tables of a run, up to a round."""
        until = polars.col("round") <= last
        # A run without scores so far has left a table without columns.
        self.scores = [scores.filter(until)] if scores.width else []
        self.rounds = rounds.filter(until).to_dicts()
        self.over_all = over_all.filter(until).to_dicts() if over_all.width else []
        if self.scores:
            means = self._means().drop_nulls()[f"val_{self.metric}"].to_list()
            self.top = means[best_of(self.metric, means)] if means else float("nan")

    def table(self) -> polars.DataFrame:
        """One row per scored round and client."""
        if self.fresh:
            columns = {
                name: np.concatenate([part[name] for part in self.fresh]) for name in self.fresh[0]
            }
            self.scores.append(polars.DataFrame(columns, nan_to_null=True))
            self.fresh = []
        if len(self.scores) > 1:
            self.scores = [polars.concat(self.scores, how="diagonal")]
        return self.scores[0] if self.scores else polars.DataFrame()

    def best(self) -> Best:
        """The first round with the best mean validation score, and the scores there.

        Means are over clients, each counting the same; the test figure is read where validation
        is best, never where the test is.
        """
        means, val = self._means().drop_nulls(), f"val_{self.metric}"
        if means.is_empty():
            raise AtollError(
                f"no client has a validation node that gives it a score of {self.metric}, so no "
                f"round can be chosen; give split.val more."
            )
        top = means["round"][best_of(self.metric, means[val].to_list())]
        at_best = self.table().filter(polars.col("round") == top).sort("client")
        pooled = [row for row in self.over_all if row["round"] == top]
        return Best(int(top), at_best, pooled[-1] if pooled else {})

    def _means(self) -> polars.DataFrame:
        """The mean validation score of each scored round."""
        mean = polars.col(f"val_{self.metric}").mean()
        return self.table().group_by("round").agg(mean).sort("round")


@dataclass(frozen=True)
class Best:
    """The scores of every client in the best round."""

    round: int
    scores: polars.DataFrame
    # Of all test nodes together, by column; ``never_predicted`` has names of classes.
    over_all: dict[str, Any] = field(default_factory=dict)

    def mean(self, column: str) -> float:
        value = self.scores[column].mean()
        return float("nan") if value is None else float(value)  # type: ignore[arg-type]

    def std(self, column: str) -> float:
        """Standard deviation over clients; zero where there is only one."""
        value = self.scores[column].std(ddof=0)
        return float("nan") if value is None else float(value)  # type: ignore[arg-type]
