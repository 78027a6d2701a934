"""Is joining worth it? A comparison over seeds, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars
from rich.table import Table
from rich.text import Text

from atoll.comparison.outcome import Comparison, Which

_MOST_ROWS = 60


def pages(found: Comparison, which: Which) -> Iterator[Table | str]:
    """Methods first, then the sites of the best joined method, or of all, each with its count."""
    yield methods_table(found)
    for label in found.shown(which):
        yield sites_table(found, label)
        yield found.counted(label)
    yield from found.cautions()


def methods_table(found: Comparison) -> Table:
    """One row per method: mean and std over seeds, and the paired difference to training alone."""
    first, seeds = found.plan.first, found.plan.seeds
    table = Table(
        title=f"{first.data.registered_name}, {len(found.plan.sites)} clients "
        f"({first.partition.registered_name}), {first.run.rounds} rounds, seeds {seeds[0]} to "
        f"{seeds[-1]}",
        caption=f"{_unit(found)}mean over clients and seeds, each run at the round with the best "
        "mean validation score; p of a paired t-test",
    )
    table.add_column("method")
    for heading in (f"test {found.metric}", "std over seeds", "difference to local",
                    "95 % interval", "p"):  # fmt: skip
        table.add_column(heading, justify="right")
    score = found.shown_score
    for row in found.methods.iter_rows(named=True):
        p = "-" if row["p"] is None else f"{row['p']:.2g}"
        table.add_row(row["method"], score(row["mean"]), score(row["std"]), *_gap(found, row), p)
    return table


def sites_table(found: Comparison, label: str) -> Table:
    """One row per site: alone, joined, the difference over seeds and the verdict."""
    why = ", the best joined method by validation" if label == found.best else ""
    table = Table(
        title=f"Sites, alone and joined with {label}{why}",
        caption=f"test {found.metric}, {_unit(found)}mean over seeds; join: better with the whole "
        f"interval, stay: worse",
    )
    table.add_column("site")
    for heading in ("nodes", "alone", "joined", "difference", "95 % interval", "verdict"):
        table.add_column(heading, justify="right")
    score = found.shown_score
    rows = found.sites.filter(polars.col("method") == label)
    for row in rows.head(_MOST_ROWS).iter_rows(named=True):
        pair = score(row["alone"]), score(row["joined"])
        table.add_row(
            Text(row["site"]), str(row["nodes"]), *pair, *_gap(found, row), row["verdict"]
        )
    if len(rows) > _MOST_ROWS:
        table.add_row(f"{len(rows) - _MOST_ROWS} more", *["..."] * 6)
    return table


def _gap(found: Comparison, row: dict[str, Any]) -> tuple[str, str]:
    gap, low, high = (found.signed(row[name]) for name in ("difference", "low", "high"))
    return gap, "-" if row["low"] is None else f"{low} to {high}"


def _unit(found: Comparison) -> str:
    return "" if found.less_is_better else "percent, "
