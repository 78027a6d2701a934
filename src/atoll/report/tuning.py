"""What a search found, for a terminal."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from atoll.report.tables import score
from atoll.tasks.metrics import LOSS
from atoll.tuning.outcome import Tuning

_MOST_ROWS = 10


def trials_table(found: Tuning) -> Table:
    """The best trials first; those that were given up are counted in the caption."""
    complete = [row for row in found.rows if row["state"] == "complete"]
    complete.sort(key=lambda row: row["score"], reverse=found.metric != LOSS)
    given_up = sum(row["state"] == "pruned" for row in found.rows)
    failed = sum(row["state"] == "fail" for row in found.rows)
    e = found.experiment
    seeds = f", mean over {len(found.seeds)} seeds" if len(found.seeds) > 1 else ""
    said = f"validation scores{seeds}; {len(found.rows)} trials, {given_up} of them given up early"
    table = Table(
        title=f"{e.method.registered_name} on {e.data.registered_name}: best trials",
        caption=said + (f", {failed} failed" if failed else ""),
    )
    table.add_column("trial", justify="right")
    table.add_column(f"validation {found.metric}", justify="right")
    for path in found.settings:
        table.add_column(Text(path), justify="right")
    for row in complete[:_MOST_ROWS]:
        values = (Text(_plain(row[path])) for path in found.settings)
        table.add_row(str(row["trial"]), score(found.metric, row["score"]), *values)
    return table


def importance_table(found: Tuning) -> Table:
    """Each setting's share of what the scores of complete trials differ by."""
    table = Table(title="Importance", caption="share of the scores' variance (functional ANOVA)")
    table.add_column("setting")
    table.add_column("share", justify="right")
    for path, share in found.importance.items():
        table.add_row(Text(path), f"{100 * share:.0f} %")
    return table


def _plain(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
