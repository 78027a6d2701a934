"""The search: trials one after the other, each judged by validation scores alone."""

from __future__ import annotations

import json
import shutil
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from atoll.comparison.plan import (
    keep_plan,
    refuse_below_one,
    refuse_files,
    refuse_other_settings,
    settled_metric,
)
from atoll.comparison.runs import Watch, saying
from atoll.errors import AtollError, Interrupted
from atoll.experiment.choices import choose
from atoll.experiment.config import Experiment, Table, describe
from atoll.experiment.result import Result
from atoll.experiment.runner import continued, load_parties, log, run_experiment
from atoll.files import damaged, write_json, write_text, written_whole
from atoll.tasks.metrics import LOSS
from atoll.tuning.outcome import Tuning
from atoll.tuning.space import Axis, Params, axes_of, spelled
from atoll.tuning.trials import Trials, needs_optuna

if TYPE_CHECKING:
    import optuna

_PLAN = "tuning.json"
# Scores of a run that the pruner sees, at most: each costs some milliseconds.
_REPORTS = 10


class _Pruned(Exception):
    """A trial that is among the worst quarter of those before, at the same round."""


@dataclass
class Search:
    """A search for the settings with the best validation score, over so many seeds."""

    choices: Mapping[str, Any]
    over: Mapping[str, Any]
    trials: int = 20
    seeds: int = 1
    prune: bool = True
    base: Experiment = field(init=False)
    axes: tuple[Axis, ...] = field(init=False)

    def __post_init__(self) -> None:
        refuse_below_one("--trials", self.trials)
        refuse_below_one("--seeds", self.seeds)
        needs_optuna()
        base = choose(**self.choices)
        self.axes = axes_of(self.over, describe(base))
        for axis in self.axes:
            for value in axis.ends:
                self._chosen({axis.path: value})
        if base.run.metric == "auto":
            # One metric for all trials, as the data call for it.
            metric = settled_metric(base, load_parties(base).graphs)
            self.choices = {**self.choices, "metric": metric}
            base = choose(**self.choices)
        self.base = base

    def _chosen(self, params: Params) -> Experiment:
        settings = [*(self.choices.get("settings") or ()), *params.items()]
        return choose(**{**self.choices, "settings": settings})

    def experiment(self, params: Params, seed: int) -> Experiment:
        chosen = self._chosen(params)
        return replace(chosen, run=replace(chosen.run, seed=seed))

    @property
    def all_seeds(self) -> range:
        first = self.base.run.seed
        return range(first, first + self.seeds)

    def plan(self) -> dict[str, Any]:
        """What a folder is for, as it is kept."""
        kept = {
            "config": describe(self.base),
            "over": {axis.path: axis.plain() for axis in self.axes},
            "search": {"seeds": self.seeds, "prune": self.prune},
            "trials": self.trials,
        }
        plain: dict[str, Any] = json.loads(json.dumps(kept))
        return plain


def tune(search: Search, out: Path | None = None, watch: Watch | None = None) -> Tuning:
    """Do the trials that are left in a folder, and say what was found."""
    out = _opened(search, out)
    base = search.base
    now = describe(base)
    own = {axis.path: _at(now, axis.path) for axis in search.axes}
    less, rounds = base.run.metric == LOSS, base.run.rounds
    trials = Trials(out, search.axes, own, base.run.seed, less, rounds // 4)
    budget, done = trials.budget(search.trials), len(trials.ended())
    try:
        with saying(quiet=True):
            for number in range(done, budget):
                _try(search, trials, trials.next(), out, _watching(watch, number, budget, search))
                _keep_best(search, trials, out)
    except (Interrupted, KeyboardInterrupt):
        raise Interrupted(
            f"interrupted in trial {len(trials.ended()) + 1} of {budget}; continue with: atoll "
            f"resume {out}"
        ) from None
    return _concluded(search, trials, out)


def _opened(search: Search, out: Path | None) -> Path:
    """The folder of the search: a new one, or one in which the same search was begun."""
    if out is None:
        method, data = search.base.method.registered_name, search.base.data.registered_name
        stem = f"{time.strftime('%Y%m%d-%H%M%S')}-tune-{method}-{data}"
        names = (f"{stem}-{n}" if n else stem for n in range(10_000))
        out = next(path for path in map(Path("runs").joinpath, names) if not path.exists())
    refuse_files(out)
    plan, path = search.plan(), out / _PLAN
    if path.is_file():
        try:
            there = json.loads(path.read_text())
            old = _compared(there)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
            raise damaged(path, problem) from problem
        refuse_other_settings(_compared(plan), old, out, "search")
        if list(plan["over"]) != list(there["over"]):
            raise AtollError(f"'{out}' holds a search over other settings; choose another --out.")
    keep_plan(out, _PLAN, plan, "a search")
    return out


def is_search(folder: Path) -> bool:
    return (folder / _PLAN).is_file()


def resume_search(out: Path, watch: Watch | None = None) -> Tuning:
    """Continue an interrupted search to what it would have found."""
    try:
        plan = json.loads((out / _PLAN).read_text())
        over = {path: spelled(axis) for path, axis in plan["over"].items()}
        found = Search({"table": plan["config"]}, over, plan["trials"], **plan["search"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise damaged(out / _PLAN, problem) from problem
    return tune(found, out, watch)


def _compared(plan: Mapping[str, Any]) -> dict[str, Table]:
    return {"the search": {**plan["config"], "over": plan["over"], "search": plan["search"]}}


def _at(table: Table, path: str) -> Any:
    section, _, key = path.partition(".")
    return table.get(section, {}).get(key)


def _watching(watch: Watch | None, number: int, budget: int, search: Search) -> Watch | None:
    """Rounds of this trial as rounds of all."""
    if watch is None:
        return None
    each = search.base.run.rounds * search.seeds

    def told(done: int, _: int, note: str) -> None:
        watch(number * each + done, budget * each, f"trial {number + 1} of {budget}{note}")

    return told


def _try(
    search: Search, trials: Trials, trial: optuna.Trial, out: Path, watch: Watch | None
) -> None:
    """One trial: a run per seed; its score is the mean of their best validation scores."""
    from optuna.trial import TrialState

    folder = out / "trials" / f"{trial.number:04d}"
    found: list[float] = []
    try:
        for i, seed in enumerate(search.all_seeds):
            experiment = search.experiment(trial.params, seed)
            follow = _Follow(search, trial, i, list(found), watch)
            found.append(_run(experiment, folder / f"seed-{seed}", follow).val_score)
        trials.study.tell(trial, statistics.fmean(found))
    except Interrupted:
        raise
    except _Pruned:
        trials.study.tell(trial, state=TrialState.PRUNED)
    except AtollError as problem:
        log.error("trial %d failed: %s", trial.number, problem)
        trials.study.tell(trial, state=TrialState.FAIL)
    # What a trial leaves behind is its score: models and test scores are nobody's business here.
    shutil.rmtree(folder, ignore_errors=True)
    if watch is not None:
        watch(search.base.run.rounds * search.seeds, 0, "")


def _run(experiment: Experiment, folder: Path, follow: _Follow) -> Result:
    if (folder / "config.toml").is_file():
        return continued(experiment, folder, follow)
    shutil.rmtree(folder, ignore_errors=True)  # killed before its config was whole
    return run_experiment(experiment, folder, follow, ledger=False)


@dataclass
class _Follow:
    """Tells the pruner, every few rounds, how a trial does; validation scores are all it sees."""

    search: Search
    trial: optuna.Trial
    place: int  # of the seed
    before: list[float]  # the scores of the seeds before
    watch: Watch | None

    def __post_init__(self) -> None:
        self.known = set(self.trial.study.get_trials(deepcopy=False)[self.trial.number]
                         .intermediate_values)  # fmt: skip

    def __call__(self, round: int, val: float) -> None:
        rounds = self.search.base.run.rounds
        step = self.place * rounds + round
        if self.watch is not None:
            self.watch(step, 0, f"; validation {val:.3f}" if val == val else "")
        if val != val or round % max(1, rounds // _REPORTS):
            return
        if step not in self.known:  # else a round that is done again after an interruption
            self.trial.report(statistics.fmean([*self.before, val]), step)
        if self.search.prune and self.trial.should_prune():
            raise _Pruned


def _keep_best(search: Search, trials: Trials, out: Path) -> None:
    """The table of trials, and the best one's config, which ``atoll run`` takes."""
    found = _tuning(search, trials, out)
    with written_whole(out / "trials.csv") as part:
        found.trials.write_csv(part)
    if found.score is not None:
        said = f"# The best of {len(found.trials)} trials by atoll tune: {found.score_name} "
        text = said + f"{found.score!r}\n" + tomli_w.dumps(describe(found.experiment))
        write_text(out / "best.toml", text)


def _concluded(search: Search, trials: Trials, out: Path) -> Tuning:
    found = replace(_tuning(search, trials, out), importance=trials.importance())
    if found.score is None:
        raise AtollError(
            f"none of the {len(found.trials)} trials came to its end; see the errors above and "
            f"narrow the ranges."
        )
    write_json(out / "results.json", found.summary())
    return found


def _tuning(search: Search, trials: Trials, out: Path) -> Tuning:
    best = trials.best()
    params = {} if best is None else {axis.path: best.params[axis.path] for axis in search.axes}
    return Tuning(
        experiment=search.experiment(params, search.base.run.seed),
        settings=params,
        score=None if best is None else best.value,
        rows=tuple(trials.table()),
        metric=search.base.run.metric,
        seeds=tuple(search.all_seeds),
        importance={},
        out=out,
    )
