"""A study whose runs are complete, read back from its folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from atoll.experiment.result import Result, load_result
from atoll.experiment.run_dir import environment
from atoll.reproduction.cells import Cell
from atoll.reproduction.recipe import Header as RecipeHeader
from atoll.reproduction.recipe import Plot, Recipe, Target
from atoll.reproduction.reproduce import drawn_array
from atoll.reproduction.studies.run import Run, of_result
from atoll.tabulation.form import Place
from atoll.tabulation.outcome import Study, known
from atoll.tabulation.plan import StudyPlan


def concluded(plan: StudyPlan, out: Path) -> Study:
    """A study whose runs are all complete, read back from its folder."""
    recipe = _recipe(plan)
    found: dict[Place, Cell] = {}
    figures: dict[str, str] = {}
    singles: list[dict[str, Any]] = []
    remarks: Counter[str] = Counter()
    for target in recipe.targets:
        place = (target.row, target.column)
        steps = [plan.step(place, seed) for seed in plan.seeds]
        results = [load_result(s.folder(out / "runs"), s.experiment) for s in steps]
        figure = plan.form.header.figure or f"test_{results[0].metric}"
        figures[target.row] = figure
        found[place] = _cell(recipe, target, figure, results)
        for result in results:
            remarks.update(_remarks(result))
        singles += [
            {
                "row": target.row,
                "column": target.column,
                "seed": result.experiment.run.seed,
                "value": known(value),
                f"val_{result.metric}": known(result.val_score),
                "best_round": result.best_round,
                "bytes_up": result.bytes_up,
                "bytes_down": result.bytes_down,
                "run_dir": str(result.run_dir.relative_to(out)),
            }
            for result, value in zip(results, found[place].values, strict=True)
        ]
    study = Study(plan, found, figures, tuple(singles), dict(remarks), out, recipe)
    plot = Plot(kind=plan.form.header.plot, x=_x_label(plan), y=study.figure)
    return replace(study, recipe=replace(recipe, plot=plot))


def _x_label(plan: StudyPlan) -> str:
    """What is on the x axis: rounds, or the setting that rows are numbered by."""
    kind, first = plan.form.header.plot, plan.form.rows[0]
    if kind == "lines" and first.x is not None:
        return [part for part in first.label.split(", ") if "=" in part][-1].partition("=")[0]
    return "round" if kind == "curves" else ""


def _remarks(result: Result) -> set[str]:
    """What was said of a run, with the method's name before it."""
    method = result.experiment.method.registered_name
    return {*result.notes, *(f"{method}: {remark}" for remark in result.remarks)}


def _cell(recipe: Recipe, target: Target, figure: str, results: Sequence[Result]) -> Cell:
    findings = [of_result(result) for result in results]
    return Cell(
        target=target,
        values=tuple(Run().figure(f, figure) for f in findings),
        best_rounds=tuple(f.best_round for f in findings),
        seconds=sum(r.seconds_per_round * r.figures["rounds"] for r in results),
        settings={section: dict(values) for section, values in target.settings.items()},
        environment=environment(),
        array=drawn_array(recipe, [f.arrays.get(figure) for f in findings]),
    )


def _recipe(plan: StudyPlan) -> Recipe:
    """The same table as a recipe, of which nothing has been published."""
    form = plan.form
    rows = {entry.label: entry for entry in form.rows}
    lines = form.header.plot == "lines"
    targets = [
        Target(
            row=row,
            column=column,
            paper=None,
            std=0.0,
            tolerance=0.0,
            above="fine",
            figure=form.header.figure,
            panel=rows[row].rest if lines and rows[row].x is not None else "",
            x=rows[row].x,
            settings=table,
        )
        for (row, column), table in form.cells.items()
    ]
    title = form.header.title or form.name
    return Recipe(
        form.name, RecipeHeader(title=title, source=""), tuple(targets), Plot(kind=form.header.plot)
    )
