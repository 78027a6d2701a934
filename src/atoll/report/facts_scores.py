"""Scores of a group of runs as plain facts: methods, sites, rounds, classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars

from atoll.comparison.plan import ALONE
from atoll.comparison.statistics import FEWEST_SEEDS, difference, half_interval, mean, std
from atoll.experiment.looks import round_root
from atoll.graph import SPLITS
from atoll.report.sources import Entry, Group
from atoll.tasks.confusion import TOGETHER
from atoll.tasks.metrics import EXTENDED, LOSS

_POINTS, _CLIENT_POINTS = 150, 60
# Beyond, lines and rows of single clients are left out, and the page says so.
MOST_CLIENTS = 120
_MOST_CELLS = 40_000


def methods_facts(group: Group) -> list[dict[str, Any]]:
    """One entry per method: every test score with its interval over seeds, and what it took."""
    found = []
    for label, entries in group.methods.items():
        complete = [e for e in entries if e.best_round]
        found.append(
            {
                "label": label,
                "method": entries[0].experiment.method.registered_name,
                "pooled": entries[0].pooled,
                "seeds": [e.seed for e in entries],
                "done": sum(e.done for e in entries),
                "rounds": sum(e.experiment.run.rounds for e in entries),
                "complete": all(e.summary for e in entries),
                "best_rounds": [e.best_round for e in entries],
                "scores": {m: _over_seeds(complete, f"test_{m}") for m in score_names(group)},
                "val": _over_seeds(complete, f"val_{group.metric}"),
                "per_client_std": _spread(complete, f"test_{group.metric}"),
                "to_alone": _to_alone(group, label),
                "milliseconds": _seconds(entries),
                "up": sum(int(e.rounds["bytes_up"].sum()) for e in entries if e.done),
                "down": sum(int(e.rounds["bytes_down"].sum()) for e in entries if e.done),
                "epsilon": _epsilon(entries),
                "notes": sorted({n for e in entries for n in e.summary.get("notes", [])}),
                "remarks": sorted({n for e in entries for n in e.summary.get("remarks", [])}),
                "rejected": sum(e.summary.get("rejected_replies", 0) for e in entries),
            }
        )
    return found


def _epsilon(entries: Sequence[Entry]) -> float | None:
    """The most that a run has spent so far; None where no noise was added."""
    spent = [e.rounds["epsilon"].max() for e in entries if "epsilon" in e.rounds.columns]
    return max((float(s) for s in spent if s is not None), default=None)  # type: ignore[arg-type]


def score_names(group: Group) -> list[str]:
    """The scores that the runs have, the one that counts first."""
    there = {c.removeprefix("test_") for e in group.entries for c in e.history.columns}
    known = [m for m in ("accuracy", "auc", LOSS, *EXTENDED) if m in there and m != group.metric]
    return [group.metric, *known]


def sites_facts(group: Group) -> dict[str, list[dict[str, Any]]]:
    """Per joined method: one row per site, alone and joined, the paired difference, the verdict.

    The same numbers as ``atoll compare`` prints. None where every seed has other clients.
    """
    if not group.same_clients:
        return {}
    alone = {e.seed: e for e in group.methods.get(ALONE, []) if e.best_round}
    column, found = f"test_{group.metric}", {}
    for label, entries in group.methods.items():
        joined = {e.seed: e for e in entries if e.best_round}
        if label == ALONE or not alone or entries[0].pooled or not set(alone) & set(joined):
            continue
        found[label] = [
            _site(client, alone, joined, column, group.metric == LOSS)
            for client in range(group.clients)
        ]
    return found


def _site(
    client: int, alone: dict[int, Entry], joined: dict[int, Entry], column: str, less: bool
) -> dict[str, Any]:
    pairs = [
        (single, together)
        for seed in sorted(set(alone) & set(joined))
        if (single := alone[seed].at_best.get(client, {}).get(column)) is not None
        and (together := joined[seed].at_best.get(client, {}).get(column)) is not None
    ]
    gap = difference([together - single for single, together in pairs])
    return {
        "client": client,
        "alone": mean([single for single, _ in pairs]),
        "joined": mean([together for _, together in pairs]),
        "difference": gap.mean,
        "low": gap.low,
        "high": gap.high,
        "verdict": gap.verdict(less),
    }


def clients_facts(group: Group) -> dict[str, list[float | None]]:
    """Per method, each client's test score at the best round, as a mean over seeds; with the first
    seed where every seed has other clients."""
    column = f"test_{group.metric}"
    return {
        label: [
            _mean_known([e.at_best.get(c, {}).get(column) for e in _comparable(group, entries)])
            for c in range(group.clients)
        ]
        for label, entries in group.methods.items()
        if not entries[0].pooled
    }


def convergence_facts(group: Group) -> dict[str, dict[str, Any]]:
    """Per method: rounds, means over clients and seeds of every score, and lines per client."""
    found = {}
    wanted = list(dict.fromkeys([group.metric, LOSS]))
    for label, entries in group.methods.items():
        tables = [e.history for e in entries if e.history.width]
        if not tables:
            continue
        both = polars.concat(tables, how="diagonal")
        rounds = _thinned(both["round"].unique().sort().to_list(), _POINTS)
        columns = [f"{s}_{m}" for m in wanted for s in SPLITS if f"{s}_{m}" in both.columns]
        means = (
            both.filter(polars.col("round").is_in(rounds))
            .group_by("round")
            .agg(polars.col(columns).mean())
            .sort("round")
        )
        found[label] = {
            "rounds": means["round"].to_list(),
            "means": {c: means[c].to_list() for c in columns},
            "spread": _seed_spread(tables, rounds, f"test_{group.metric}"),
            "clients": {} if entries[0].pooled else _by_client(group, entries),
        }
    return found


def _comparable(group: Group, entries: Sequence[Entry]) -> Sequence[Entry]:
    """The runs in which a client is the same one."""
    return entries if group.same_clients else entries[:1]


def _by_client(group: Group, entries: Sequence[Entry]) -> dict[str, Any]:
    tables = [e.history for e in _comparable(group, entries) if e.history.width]
    if not tables:
        return {}
    table = polars.concat(tables, how="diagonal")
    rounds = _thinned(table["round"].unique().sort().to_list(), _CLIENT_POINTS)
    columns = [f"val_{group.metric}", f"test_{group.metric}"]
    part = (
        table.filter(polars.col("round").is_in(rounds), polars.col("client") < MOST_CLIENTS)
        .group_by("round", "client")
        .agg(polars.col(columns).mean())
    )
    lines: dict[str, list[list[float | None]]] = {}
    place = {r: i for i, r in enumerate(rounds)}
    for column in columns:
        grid: list[list[float | None]] = [
            [None] * len(rounds) for _ in range(min(group.clients, MOST_CLIENTS))
        ]
        for r, client, value in part.select("round", "client", column).iter_rows():
            grid[client][place[r]] = value
        lines[column] = grid
    return {"rounds": rounds, "lines": lines}


def _seed_spread(
    tables: Sequence[polars.DataFrame], rounds: Sequence[int], column: str
) -> dict[str, list[float | None]] | None:
    """The lowest and the highest seed, round by round, where there are several seeds."""
    if len(tables) < 2:
        return None
    each = polars.concat(
        [t.group_by("round").agg(polars.col(column).mean()) for t in tables if column in t.columns]
    )
    ends = (
        each.filter(polars.col("round").is_in(rounds))
        .group_by("round")
        .agg(polars.col(column).min().alias("low"), polars.col(column).max().alias("high"))
        .sort("round")
    )
    return {"low": ends["low"].to_list(), "high": ends["high"].to_list()}


def similarity_facts(group: Group) -> dict[str, Any]:
    """Per method that compares clients: the matrices of some rounds, with the first seed."""
    found = {}
    for label, entries in group.methods.items():
        table = entries[0].similarity
        if not table.width or table.is_empty():
            continue
        k = round_root(len(table["between"][0]))
        most = max(1, _MOST_CELLS // (k * k))
        rounds = _thinned(table["round"].to_list(), min(most, len(table)))
        matrices = table.filter(polars.col("round").is_in(rounds))["between"].to_list()
        found[label] = {
            "k": k,
            "rounds": rounds,
            "matrices": [[round(v, 3) for v in m] for m in matrices],
        }
    return found


def confusion_facts(group: Group) -> dict[str, Any]:
    """Per method: counts over all test nodes, and per client where few enough; first seed."""
    found = {}
    for label, entries in group.methods.items():
        table = entries[0].confusion
        if table.is_empty():
            continue
        classes = class_order(table)
        each: dict[str, list[list[int]]] = {}
        clients = sorted(set(table["client"]))
        if TOGETHER not in clients and len(clients) * len(classes) ** 2 <= _MOST_CELLS:
            each = {
                str(c): _counts(table.filter(polars.col("client") == c), classes) for c in clients
            }
        found[label] = {"classes": classes, "all": _counts(table, classes), "each": each}
    return found


def class_order(table: polars.DataFrame) -> list[str]:
    """Classes by number where they are numbers, else by name."""
    names = set(table["actual"]) | set(table["predicted"])
    return sorted(names, key=lambda n: (0, int(n), "") if n.isdecimal() else (1, 0, n))


def _counts(table: polars.DataFrame, classes: Sequence[str]) -> list[list[int]]:
    place = {name: i for i, name in enumerate(classes)}
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    for actual, predicted, nodes in table.select("actual", "predicted", "nodes").iter_rows():
        counts[place[actual], place[predicted]] += nodes
    rows: list[list[int]] = counts.tolist()
    return rows


def curves_facts(group: Group) -> dict[str, Any]:
    """Per method: the curve of precision over recall of each class; first seed."""
    found = {}
    for label, entries in group.methods.items():
        table = entries[0].curves
        if table.is_empty():
            continue
        found[label] = [
            {
                "class": part["class"][0],
                "recall": part["recall"].to_list(),
                "precision": part["precision"].to_list(),
                "share": part["share"][0],
                "area": part["pr_auc"][0],
            }
            for part in table.partition_by("class", maintain_order=True)
        ]
    return found


def _over_seeds(entries: Sequence[Entry], column: str) -> dict[str, Any] | None:
    known = [v for e in entries if (v := e.mean(column)) is not None]
    if not known:
        return None
    half = half_interval(known) if len(known) >= FEWEST_SEEDS else math.nan
    middle = mean(known)
    return {
        "mean": middle,
        "std": std(known) if len(known) > 1 else None,
        "low": middle - half if half == half else None,
        "high": middle + half if half == half else None,
    }


def _spread(entries: Sequence[Entry], column: str) -> float | None:
    """The standard deviation over clients, as a mean over seeds."""
    each = []
    for e in entries:
        known = [row[column] for row in e.at_best.values() if row.get(column) is not None]
        if len(known) > 1:
            each.append(float(np.std(known)))
    return mean(each) if each else None


def _to_alone(group: Group, label: str) -> dict[str, Any] | None:
    alone = {e.seed: e for e in group.methods.get(ALONE, []) if e.best_round}
    own = {e.seed: e for e in group.methods[label] if e.best_round}
    if label == ALONE or not alone:
        return None
    column = f"test_{group.metric}"
    pairs = [(own[s].mean(column), alone[s].mean(column)) for s in sorted(set(own) & set(alone))]
    gap = difference([a - b for a, b in pairs if a is not None and b is not None])
    return {"mean": gap.mean, "low": gap.low, "high": gap.high, "p": gap.p}


def _seconds(entries: Sequence[Entry]) -> float | None:
    known = [float(e.rounds["seconds"].median()) for e in entries if e.done]  # type: ignore[arg-type]
    return 1000 * mean(known) if known else None


def _mean_known(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return mean(known) if known else None


def _thinned(rounds: list[int], most: int) -> list[int]:
    """At most so many, evenly, the first and the last among them."""
    if len(rounds) <= most:
        return rounds
    places = np.unique(np.linspace(0, len(rounds) - 1, most).round().astype(int))
    return [rounds[p] for p in places]
