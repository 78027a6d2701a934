"""Everything that a report shows, as one plain object: the page and the pictures draw from it."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars
import tomli_w

from atoll.comparison.plan import ALONE
from atoll.errors import AtollError
from atoll.experiment.audit import audit_run
from atoll.experiment.config import describe
from atoll.report import facts_scores as scores
from atoll.report.audit import audit_rows, sentences
from atoll.report.facts_data import data_facts
from atoll.report.facts_study import study_facts
from atoll.report.sources import Entry, Group, read_groups
from atoll.tabulation.plan import is_study
from atoll.tasks.metrics import LOSS

_DIGITS = 5
_MOST_BYTES = 1_600_000
_OTHER_CLIENTS = (
    "Every seed cuts the data anew, so that a client of one seed is not that of another: there are "
    "no verdicts for single sites, and what is shown of single clients is of the first seed. To "
    "keep the cut, set run.cut_seed."
)


def report_facts(folders: Sequence[Path], with_data: bool = True) -> dict[str, Any]:
    """All of a page."""
    groups = [group_facts(group, with_data) for group in read_groups(folders)]
    studies = [study_facts(folder) for folder in folders if is_study(folder)]
    found: dict[str, Any] = rounded(
        {"atoll": version("atoll"), "studies": studies, "groups": groups}
    )
    return _light(found)


def _light(facts: dict[str, Any]) -> dict[str, Any]:
    """Without the drawings of the last groups, where all of them would make a page too heavy."""
    left = _MOST_BYTES - sum(len(json.dumps(group)) for group in facts["groups"])
    for group in reversed(facts["groups"]):
        if left >= 0:
            break
        drawn = group["data"].pop("drawing", None)
        if drawn is not None:
            left += len(json.dumps(drawn))
            group["data"]["undrawn"] = (
                "The graph is not drawn here: with that of every part the page would be too large. "
                f"See: atoll report {group['folders'][0]}"
            )
    return facts


def group_facts(group: Group, with_data: bool = True) -> dict[str, Any]:
    """What one group of runs says."""
    data = _data_facts(group) if with_data else {"missing": "Left out, as asked for (--no-data)."}
    sites = list(group.sites) or data.get("sites", [])
    names = [sites[c] if c < len(sites) else f"client {c}" for c in range(group.clients)]
    return {
        "title": _title(group),
        "origin": str(group.origin),
        "folders": [str(entry.folder) for entry in group.entries],
        "metric": group.metric,
        "percent": group.metric != LOSS,
        "alone": ALONE,
        "sites": names,
        "most_clients": scores.MOST_CLIENTS,
        "cautions": [*group.cautions, *([] if group.same_clients else [_OTHER_CLIENTS])],
        "same_clients": group.same_clients,
        "methods": scores.methods_facts(group),
        "score_names": scores.score_names(group),
        "verdicts": scores.sites_facts(group),
        "clients": scores.clients_facts(group),
        "convergence": scores.convergence_facts(group),
        "similarity": scores.similarity_facts(group),
        "confusion": scores.confusion_facts(group),
        "curves": scores.curves_facts(group),
        "data": data,
        "communication": {
            label: communication(entries[0]) for label, entries in group.methods.items()
        },
        "left": {label: _left(entries[0]) for label, entries in group.methods.items()},
        "settings": _settings(group),
        "configs": {
            label: tomli_w.dumps(describe(entries[0].experiment))
            for label, entries in group.methods.items()
        },
        "versions": _versions(group.first),
        "commands": list(group.commands),
    }


def communication(entry: Entry) -> dict[str, Any]:
    """Bytes of one run by kind, both ways, scores apart; by round, too."""
    by_round = (
        entry.rounds.select("round", "bytes_up", "bytes_down").to_dict(as_series=False)
        if (entry.done)
        else {}
    )
    table = entry.ledger
    if not table.width or table.is_empty():
        return {"kinds": [], "rounds": by_round}
    sums = (
        table.group_by("kind", "direction")
        .agg(polars.col("bytes").sum())
        .sort("bytes", descending=True)
    )
    kinds: dict[str, dict[str, Any]] = {}
    for kind, way, total in sums.iter_rows():
        kinds.setdefault(kind, {"kind": kind, "up": 0, "down": 0})[way] = total
    return {"kinds": list(kinds.values()), "rounds": by_round}


def _left(entry: Entry) -> dict[str, Any]:
    """What crossed in a run, and what never does; or why that is not known."""
    try:
        audit = audit_run(entry.folder)
    except AtollError as problem:
        return {"missing": str(problem)}
    return {"sentences": sentences(audit), "rows": audit_rows(audit)}


def _settings(group: Group) -> list[list[Any]]:
    """One row per setting: its name, then its value for each method; what differs comes first."""
    tables = [_flat(describe(entries[0].experiment)) for entries in group.methods.values()]
    keys = dict.fromkeys(key for table in tables for key in table)
    rows = [[key, *(table.get(key, "") for table in tables)] for key in keys]
    return sorted(rows, key=lambda row: len(set(row[1:])) == 1)


def _flat(table: dict[str, Any]) -> dict[str, str]:
    return {f"{s}.{k}": str(v) for s, values in table.items() for k, v in values.items()}


def _versions(entry: Entry) -> dict[str, str]:
    try:
        found = tomllib.loads((entry.folder / "environment.toml").read_text())
    except (OSError, ValueError):
        return {}
    return {name: str(value) for name, value in found.items()}


def _title(group: Group) -> str:
    e = group.first.experiment
    count = f"{group.clients} client{'s' * (group.clients != 1)}"
    data, name = e.data.registered_name, group.name
    before = f"{name}: " if name and name != data else ""
    return f"{before}{data}, {count} ({e.partition.registered_name})"


def rounded(value: Any) -> Any:
    """Ready for JSON: few digits, and null for what is no number."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(k): rounded(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(v) for v in value]
    return value


# A page that is watched is made again and again; what clients hold stays what it is.
_DATA: dict[str, dict[str, Any]] = {}
_MOST_KEPT = 24


def _data_facts(group: Group) -> dict[str, Any]:
    key = tomli_w.dumps(describe(group.first.experiment))
    if key not in _DATA:
        while len(_DATA) >= _MOST_KEPT:
            del _DATA[next(iter(_DATA))]
        _DATA[key] = data_facts(group)
    return dict(_DATA[key])
