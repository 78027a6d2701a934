"""The trials of a search: which settings come next, and a file that remembers all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from atoll.errors import AtollError
from atoll.files import damaged
from atoll.rng import server_stream
from atoll.tuning.space import Axis, Params, grid_of

if TYPE_CHECKING:
    import optuna

FILE = "trials.db"
# Fewer trials are no measure for another.
_UNPRUNED_TRIALS = 5
# Of those before, a trial must have done better than a quarter. The median would be quicker and
# gives up trials that are slow to begin and end best.
_KEPT_PERCENT = 75.0
_FEWEST_FOR_IMPORTANCE = 4


def needs_optuna() -> None:
    try:
        import optuna
    except ImportError:
        raise AtollError(
            "tuning needs Optuna; install it with: pip install 'atoll[tune]'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)


class Trials:
    """What was tried, in one SQLite file.

    The settings of trial n follow from the seed, n and the trials before it, whenever they were
    run: so a search that was interrupted goes on as if it had not been, and one with more trials
    begins with the same. Where all settings have lists, points of their grid come in a random
    order, each once; else the first are those of the experiment itself, and the rest come from a
    tree-structured Parzen estimator (Bergstra et al., 2011).
    """

    def __init__(
        self, folder: Path, axes: Sequence[Axis], own: Params, seed: int, less: bool, warm_up: int
    ) -> None:
        import optuna

        self.axes, self.own, self.seed = axes, own, seed
        self.direction: Literal["minimize", "maximize"] = "minimize" if less else "maximize"
        self.distributions = {axis.path: axis.distribution() for axis in axes}
        self.grid = grid_of(axes)
        if self.grid is not None:
            server_stream(seed, 0, "tune").shuffle(self.grid)
        with _readable(folder / FILE):
            self.study = optuna.create_study(
                storage=f"sqlite:///{(folder / FILE).absolute()}",
                study_name="tune",
                load_if_exists=True,
                direction=self.direction,
                pruner=optuna.pruners.PercentilePruner(_KEPT_PERCENT, _UNPRUNED_TRIALS, warm_up),
            )
            self.study.get_trials()

    def budget(self, wanted: int) -> int:
        """How many trials there can be: no point of a grid is tried twice."""
        return wanted if self.grid is None else min(wanted, len(self.grid))

    def ended(self) -> list[optuna.trial.FrozenTrial]:
        there = self.study.get_trials(deepcopy=False)
        return [trial for trial in there if trial.state.is_finished()]

    def next(self) -> optuna.Trial:
        """The trial that was interrupted, if there is one, else a new one."""
        import optuna

        running = optuna.trial.TrialState.RUNNING
        there = self.study.get_trials(deepcopy=False)
        left = [trial for trial in there if trial.state == running]
        if not left:
            fresh = optuna.trial.create_trial(
                state=running,
                params=self._suggested(len(there)),
                distributions=dict(self.distributions),
            )
            self.study.add_trial(fresh)  # whole or not at all
            left = self.study.get_trials(deepcopy=False, states=(running,))
        return optuna.Trial(self.study, left[0]._trial_id)

    def _suggested(self, number: int) -> Params:
        import optuna

        if self.grid is not None:
            return self.grid[number]
        if number == 0 and all(axis.holds(self.own.get(axis.path)) for axis in self.axes):
            return {axis.path: self.own[axis.path] for axis in self.axes}
        seed = int(server_stream(self.seed, number, "tune").integers(2**31))
        before = optuna.create_study(
            sampler=optuna.samplers.TPESampler(seed=seed), direction=self.direction
        )
        before.add_trials(self.ended())
        return dict(before.ask(self.distributions).params)

    def best(self) -> optuna.trial.FrozenTrial | None:
        """The first of the best among those that came to their end."""
        complete = [trial for trial in self.ended() if trial.state.name == "COMPLETE"]
        sign = -1 if self.direction == "minimize" else 1
        return max(complete, key=lambda t: (sign * _value(t), -t.number), default=None)

    def importance(self) -> dict[str, float]:
        """Each setting's share of what scores differ by (functional ANOVA); empty if unknown."""
        import optuna

        complete = [trial for trial in self.ended() if trial.state.name == "COMPLETE"]
        if len(complete) < _FEWEST_FOR_IMPORTANCE or len({_value(t) for t in complete}) < 2:
            return {}
        found = optuna.importance.get_param_importances(
            self.study, evaluator=optuna.importance.FanovaImportanceEvaluator(seed=0)
        )
        return {path: float(share) for path, share in found.items()}

    def table(self) -> list[dict[str, Any]]:
        """One row per trial: what became of it, its score, its settings."""
        return [
            {
                "trial": trial.number,
                "state": trial.state.name.lower(),
                "score": trial.value,
                **{axis.path: trial.params[axis.path] for axis in self.axes},
            }
            for trial in self.ended()
        ]


def _value(trial: optuna.trial.FrozenTrial) -> float:
    assert trial.value is not None
    return trial.value


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, RuntimeError) as problem:
        raise damaged(path, problem) from problem
