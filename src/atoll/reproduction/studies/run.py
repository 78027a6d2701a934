"""Training, and the figures of its result."""

import re
import tempfile
from pathlib import Path

import numpy as np
import polars

from atoll.errors import AtollError, unknown
from atoll.experiment.config import Experiment
from atoll.experiment.result import Result
from atoll.experiment.runner import run_experiment
from atoll.graph import SPLITS
from atoll.reproduction.studies.base import Findings, Study, studies
from atoll.tasks.metrics import LOSS


@studies.register("run")
class Run(Study):
    """Train, and read figures of the result; scores are in percent.

    ``test_accuracy@20`` is the mean over clients in round 20 instead of the best round, or in the
    last one if training ended before. ``test_accuracy>augmented_round`` is that of the round with
    the best validation among those after the round that another figure says, or in the last one.
    Scores on the whole graph are there for some rounds only; the best of these counts.
    ``test_accuracy_own_best`` has every client at the round with its own best validation, as some
    released codes read their runs.
    """

    caption = "Scores in percent"

    def findings(self, experiment: Experiment) -> Findings:
        with tempfile.TemporaryDirectory() as scratch:
            result = run_experiment(experiment, Path(scratch) / "run", ledger=False)
            return self.of(result)

    def of(self, result: Result) -> Findings:
        """What is read of a finished run."""
        return of_result(result)

    def figure(self, found: Findings, name: str) -> float:
        if ">" in name:
            return self._after(found, *name.split(">", 1))
        column, at, round = name.partition("@")
        if not at:
            return super().figure(found, name)
        if column not in found.arrays:
            raise unknown("figure", column, found.arrays)
        scored = found.arrays["round"].tolist()
        # A run whose method has finished keeps the scores of its last round.
        wanted = min(int(round), scored[-1])
        if wanted not in scored:
            raise AtollError(
                f"figure '{name}': round {round} has no scores; let run.score_every divide it."
            )
        return float(found.arrays[column][scored.index(wanted)])

    def _after(self, found: Findings, column: str, begin: str) -> float:
        """A test score where its validation is best, among the rounds after one."""
        guide = _guide(column)
        for name in (column, guide):
            if name not in found.arrays:
                raise unknown("figure", name, found.arrays)
        late = found.arrays["round"] > super().figure(found, begin)
        after = np.flatnonzero(late & ~np.isnan(found.arrays[column]))
        choice = after if len(after) else np.array([len(found.arrays["round"]) - 1])
        return float(found.arrays[column][choice[found.arrays[guide][choice].argmax()]])


def _guide(column: str) -> str:
    """The validation score that a round is chosen by: a test score's own, and for other averages of
    it, or for scores on the whole graph, the plain one."""
    plain = re.sub(r"^test_(weighted_)?(whole$)?", "", column) or "accuracy"
    return f"val_{plain}"


def of_result(result: Result) -> Findings:
    """A run's figures, and each score's mean over clients as a curve over rounds."""
    figures = {
        name: 100 * value if is_score(name) else value for name, value in result.figures.items()
    }
    # The rounds' own time, without loading data or writing tables.
    figures["seconds"] = result.seconds_per_round * result.figures["rounds"]
    if result.metric != LOSS:
        figures[f"test_{result.metric}_own_best"] = 100 * at_own_best(result.history, result.metric)
    scores = [name for name in result.history.columns if is_score(name)]
    means = result.history.group_by("round").agg(polars.col(*scores).mean()).sort("round")
    curves = {name: 100 * means[name].to_numpy() for name in scores}
    return Findings(figures, curves | {"round": means["round"].to_numpy()}, result.best_round)


def at_own_best(history: polars.DataFrame, score: str) -> float:
    """The mean over clients of the test score in each client's first best round by validation.

    NaN if there is no client with nodes of both kinds.
    """
    known = history.drop_nulls([f"val_{score}", f"test_{score}"]).sort("round")
    best = polars.col(f"test_{score}").get(polars.col(f"val_{score}").arg_max())
    mean = known.group_by("client").agg(best)[f"test_{score}"].mean()
    return float("nan") if mean is None else float(mean)  # type: ignore[arg-type]


def is_score(name: str) -> bool:
    """Scores are shares of one; losses and everything else are what they are."""
    return name.startswith(tuple(f"{s}_" for s in SPLITS)) and not name.endswith("_loss")
