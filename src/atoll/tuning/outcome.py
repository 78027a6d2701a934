"""What a search found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars

from atoll.experiment.config import Experiment
from atoll.notebook import html_table
from atoll.tasks.metrics import LOSS

_SHOWN = 5


@dataclass(frozen=True, repr=False)
class Tuning:
    """The settings with the best validation score among those that were tried.

    ``settings`` are the best ones by path, as :func:`atoll.run` takes them; ``experiment`` is the
    whole. ``score`` is the mean validation score over ``seeds``, each run's at its best round.
    ``trials`` has one row per trial. ``importance`` is each setting's share of what scores differ
    by. No test score is in any of them.
    """

    experiment: Experiment
    settings: dict[str, Any]
    score: float | None
    rows: tuple[dict[str, Any], ...]
    metric: str
    seeds: tuple[int, ...]
    importance: dict[str, float]
    out: Path

    @property
    def trials(self) -> polars.DataFrame:
        return polars.DataFrame(
            list(self.rows), schema_overrides={"score": polars.Float64}, infer_schema_length=None
        )

    @property
    def score_name(self) -> str:
        return f"val_{self.metric}"

    @property
    def best_config(self) -> Path:
        """A config that ``atoll run`` takes."""
        return self.out / "best.toml"

    def summary(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return {
            "method": self.experiment.method.registered_name,
            "data": self.experiment.data.registered_name,
            "metric": self.metric,
            "seeds": list(self.seeds),
            "best": self.settings,
            self.score_name: self.score,
            "trials": list(self.rows),
            "importance": self.importance,
        }

    def _repr_html_(self) -> str:
        """The best trials, best first."""
        e = self.experiment
        done = [row for row in self.rows if row["score"] is not None]
        best = sorted(done, key=lambda row: float(row["score"]), reverse=self.metric != LOSS)
        head = ("trial", self.score_name.replace("_", " "), *self.settings)
        rows = [
            (row["trial"], f"{row['score']:.4f}", *(_shown(row[path]) for path in self.settings))
            for row in best[:_SHOWN]
        ]
        what = f"{e.method.registered_name} on {e.data.registered_name}"
        return html_table(f"{what}: {len(self.rows)} trials", head, rows)

    def __repr__(self) -> str:
        e = self.experiment
        best = ", ".join(f"{path} = {value}" for path, value in self.settings.items())
        what = f"{e.method.registered_name} on {e.data.registered_name}, {len(self.rows)} trials"
        return f"<Tuning {what}: {best}; {self.score_name} {self.score}, in '{self.out}'>"


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
