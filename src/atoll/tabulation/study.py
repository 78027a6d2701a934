"""From a study's form to its tables: the whole way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atoll.comparison.plan import refuse_below_one
from atoll.comparison.runs import Watch, do_runs
from atoll.experiment.result import load_result
from atoll.federation.cluster import HERE, Engine
from atoll.reproduction.studies.run import Run, of_result
from atoll.tabulation.conclusion import concluded
from atoll.tabulation.form import read_form
from atoll.tabulation.outcome import Study
from atoll.tabulation.plan import StudyPlan, make_plan, open_folder, read_plan


def run_study(
    source: str | Path | Mapping[str, Any],
    seeds: int | None = None,
    jobs: int = 1,
    out: Path | None = None,
    watch: Watch | None = None,
    engine: Engine = HERE,
) -> Study:
    """Run the cells of a study over seeds in one folder, going on with what is there already."""
    refuse_below_one("--jobs", jobs)
    plan = make_plan(read_form(source), seeds)
    return _done(plan, open_folder(plan, out), jobs, watch, engine)


def resume_study(
    out: Path, jobs: int = 1, watch: Watch | None = None, engine: Engine = HERE
) -> Study:
    """Continue an interrupted study to what it would have found."""
    refuse_below_one("--jobs", jobs)
    return _done(read_plan(out), out, jobs, watch, engine)


def _done(plan: StudyPlan, out: Path, jobs: int, watch: Watch | None, engine: Engine) -> Study:
    if plan.form.header.figure:
        # Its name is held against the first run, so that a mistake does not wait for the last.
        first = [next(plan.steps())]
        do_runs(first, out / "runs", 1, None, whole=out, quiet=True)
        result = load_result(first[0].folder(out / "runs"), first[0].experiment)
        Run().figure(of_result(result), plan.form.header.figure)
    steps = list(plan.steps())
    do_runs(steps, out / "runs", jobs, watch, whole=out, quiet=True, engine=engine)
    return concluded(plan, out)
