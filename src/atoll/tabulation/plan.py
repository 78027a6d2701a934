"""What a study runs, and the folder that it is kept in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from atoll.comparison.plan import (
    Step,
    keep_plan,
    refuse_below_one,
    refuse_other_settings,
    settled_metric,
)
from atoll.errors import AtollError
from atoll.experiment.config import Experiment, Metric, Table, describe, resolve
from atoll.experiment.fields import build
from atoll.experiment.runner import load_parties
from atoll.files import damaged
from atoll.tabulation.axes import Entry
from atoll.tabulation.form import Form, Header, Place

_PLAN = "study.json"


@dataclass(frozen=True)
class StudyPlan:
    """A study whose cells are experiments, each to be run with every seed."""

    form: Form
    seeds: tuple[int, ...]

    @cached_property
    def experiments(self) -> dict[Place, Experiment]:
        return {place: resolve(table) for place, table in self.form.cells.items()}

    def steps(self) -> Iterator[Step]:
        """Seed by seed, so that an interrupted study has whole rows early."""
        for seed in self.seeds:
            for place in self.form.cells:
                yield self.step(place, seed)

    def step(self, place: Place, seed: int) -> Step:
        experiment = self.experiments[place]
        label = "/".join(folder_name(part) for part in place)
        return Step(label, seed, replace(experiment, run=replace(experiment.run, seed=seed)))


def make_plan(form: Form, seeds: int | None = None) -> StudyPlan:
    """A study over so many seeds, counted from that of its settings.

    A row's cells have one metric, the one that its first cell's training nodes call for.
    """
    count = form.header.seeds if seeds is None else seeds
    refuse_below_one("--seeds", count)
    for entries in (form.rows, form.columns):
        _refuse_same_folder([entry.label for entry in entries])
    metrics: dict[str, Metric] = {}
    cells: dict[Place, Table] = {}
    for (row, column), table in form.cells.items():
        experiment = resolve(table)
        if experiment.run.metric == "auto":
            if row not in metrics:
                metrics[row] = settled_metric(experiment, load_parties(experiment).graphs)
            experiment = replace(experiment, run=replace(experiment.run, metric=metrics[row]))
        cells[row, column] = json.loads(json.dumps(describe(experiment)))
    firsts = {table["run"]["seed"] for table in cells.values()}
    if len(firsts) > 1:
        raise AtollError("run.seed differs between cells; set it under [settings] alone.")
    first = firsts.pop()
    return StudyPlan(replace(form, cells=cells), tuple(range(first, first + count)))


def folder_name(label: str) -> str:
    """A label as the name of a folder."""
    return re.sub(r"[^\w.+=-]+", "-", label).strip("-.") or "all"


def _refuse_same_folder(labels: list[str]) -> None:
    names = [folder_name(label) for label in labels]
    for label, name in zip(labels, names, strict=True):
        if names.count(name) > 1:
            raise AtollError(f"'{label}' would share the folder '{name}'; name it differently.")


def is_study(folder: Path) -> bool:
    return (folder / _PLAN).is_file()


def open_folder(plan: StudyPlan, out: Path | None) -> Path:
    """The study's folder, new or begun; further seeds, rows and columns may join what is there."""
    out = Path("runs") / f"study-{plan.form.name}" if out is None else out
    if is_study(out):
        there = read_plan(out)
        refuse_other_settings(_labelled(plan), _labelled(there), out, "study")
    form = plan.form
    kept = {
        "name": form.name,
        "header": vars(form.header),
        "seeds": plan.seeds,
        **{
            part: [[e.label, e.x, e.rest] for e in entries]
            for part, entries in (("rows", form.rows), ("columns", form.columns))
        },
        "cells": [[row, column, table] for (row, column), table in form.cells.items()],
    }
    keep_plan(out, _PLAN, kept, "a study")
    return out


def read_plan(out: Path) -> StudyPlan:
    """The study that a folder holds."""
    try:
        kept = json.loads((out / _PLAN).read_text())
        rows, columns = (
            tuple(Entry(label, {}, x, rest) for label, x, rest in kept[part])
            for part in ("rows", "columns")
        )
        cells: dict[Place, Table] = {(row, column): t for row, column, t in kept["cells"]}
        header = build(Header, "study", kept["header"])
        return StudyPlan(Form(kept["name"], header, cells, rows, columns), tuple(kept["seeds"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise damaged(out / _PLAN, problem) from problem


def _labelled(plan: StudyPlan) -> dict[str, Table]:
    return {f"{row} / {column}": table for (row, column), table in plan.form.cells.items()}
