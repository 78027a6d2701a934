"""The table of a study as plain facts: cells, differences, ranks, in numbers and in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from atoll.report.study import OF_PAIR, caption, cell_text, of_tests, pair_texts, said_of_ranks
from atoll.tabulation.conclusion import concluded
from atoll.tabulation.outcome import Study
from atoll.tabulation.plan import StudyPlan, read_plan


def study_facts(folder: Path) -> dict[str, Any]:
    """What a study found; while it goes on, how far it has come."""
    plan = read_plan(folder)
    title = plan.form.header.title or plan.form.name
    known = {"title": title, "notes": plan.form.header.notes.strip(), "origin": str(folder)}
    runs = [step.folder(folder / "runs") for step in plan.steps()]
    complete = sum((run / "summary.json").is_file() for run in runs)
    if complete < len(runs):
        return known | {"missing": f"{complete} of {len(runs)} runs are complete."}
    return known | _found(plan, folder)


def _found(plan: StudyPlan, folder: Path) -> dict[str, Any]:
    found = concluded(plan, folder)
    tested = len(plan.seeds) > 1 and bool(found.pairs)
    return {
        "caption": caption(found),
        "figure": found.figure,
        "columns": found.columns,
        "rows": [_row(found, row) for row in found.rows],
        "tests": {
            "caption": of_tests(found),
            "heads": list(OF_PAIR),
            "rows": [[*pair_texts(found, pair), pair.differs] for pair in found.pairs],
        }
        if tested
        else None,
        "ranks": said_of_ranks(found),
        "cautions": found.cautions(),
        "remarks": [
            f"{said} (in {count} of {len(found.singles)} runs)"
            for said, count in sorted(found.remarks.items())
        ],
    }


def _row(found: Study, row: str) -> dict[str, Any]:
    best = found.best_of(row)
    cells = []
    for column in found.columns:
        cell = found.found[row, column]
        mean, half = cell.ours, cell.interval
        cells.append(
            {
                "text": cell_text(found, row, column),
                "best": column in best,
                "mean": mean,
                "low": mean - half,
                "high": mean + half,
            }
        )
    return {"label": row, "cells": cells}
