"""What a report or a picture is about: runs read from their directories, grouped by their data.

To read another kind of directory, add a :class:`Reader`: whether a folder is one, and the groups
of runs that it holds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import polars

from atoll.comparison.plan import is_comparison
from atoll.comparison.plan import read_plan as read_comparison
from atoll.deploy.plan import is_deployed, read_plan
from atoll.errors import AtollError
from atoll.experiment.config import Experiment, describe
from atoll.experiment.looks import CONFUSION, CURVES, SIMILARITY
from atoll.experiment.run_dir import CLIENTS
from atoll.experiment.runner import read_experiment
from atoll.experiment.tables import read_if_there
from atoll.files import read_json
from atoll.tabulation.plan import is_study
from atoll.tabulation.plan import read_plan as read_study
from atoll.tasks.metrics import best_of


@dataclass(frozen=True, eq=False)
class Entry:
    """One run, as far as it has come."""

    label: str
    folder: Path
    experiment: Experiment

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Empty before the run is complete."""
        path = self.folder / "summary.json"
        found = read_json(path) if path.is_file() else {}
        return found if isinstance(found, dict) else {}

    @cached_property
    def history(self) -> polars.DataFrame:
        return self._table("history")

    @cached_property
    def rounds(self) -> polars.DataFrame:
        return self._table("rounds")

    @cached_property
    def ledger(self) -> polars.DataFrame:
        return self._table("ledger")

    @property
    def seed(self) -> int:
        return self.experiment.run.seed

    @property
    def pooled(self) -> bool:
        return self.experiment.method.pooled

    @property
    def done(self) -> int:
        """How many rounds are on record."""
        return len(self.rounds)

    @cached_property
    def metric(self) -> str:
        chosen = self.experiment.run.metric
        usual = self.experiment.method.task.metric if chosen == "auto" else chosen
        return str(self.summary.get("metric", usual))

    @cached_property
    def best_round(self) -> int:
        """By the summary, or the best so far; 0 before any round is scored."""
        if "best_round" in self.summary:
            return int(self.summary["best_round"])
        column = f"val_{self.metric}"
        if column not in self.history.columns:
            return 0
        means = self.history.group_by("round").agg(polars.col(column).mean()).sort("round")
        means = means.drop_nulls()
        if means.is_empty():
            return 0
        return int(means["round"][best_of(self.metric, means[column].to_list())])

    @cached_property
    def at_best(self) -> dict[int, dict[str, Any]]:
        """Every client's scores in the best round."""
        if not self.best_round:
            return {}
        rows = self.history.filter(polars.col("round") == self.best_round).sort("client")
        return {row["client"]: row for row in rows.to_dicts()}

    def mean(self, column: str) -> float | None:
        """A score of the best round, as the mean over the clients that have one."""
        known = [row[column] for row in self.at_best.values() if row.get(column) is not None]
        return sum(known) / len(known) if known else None

    @property
    def similarity(self) -> polars.DataFrame:
        return self._table(SIMILARITY)

    @property
    def confusion(self) -> polars.DataFrame:
        """Of the best round, or of the last that there is."""
        return self._looked_at(CONFUSION)

    @property
    def curves(self) -> polars.DataFrame:
        return self._looked_at(CURVES)

    def _looked_at(self, name: str) -> polars.DataFrame:
        table = self._table(name)
        return table.filter(polars.col("round") == self.best_round) if table.width else table

    def _table(self, name: str) -> polars.DataFrame:
        return read_if_there(self.folder / f"{name}.parquet")


@dataclass(frozen=True, eq=False)
class Group:
    """Runs on the same data: methods by label, each with one run per seed."""

    origin: Path
    entries: tuple[Entry, ...]
    # What clients are called, where it is on record.
    sites: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    # How to make it anew.
    commands: tuple[str, ...] = ()
    deployed: bool = False
    # What the runs are called together, besides their data.
    name: str = ""

    @property
    def first(self) -> Entry:
        return self.entries[0]

    @cached_property
    def methods(self) -> dict[str, list[Entry]]:
        found: dict[str, list[Entry]] = {}
        for entry in self.entries:
            found.setdefault(entry.label, []).append(entry)
        return found

    @property
    def metric(self) -> str:
        return self.first.metric

    @cached_property
    def same_clients(self) -> bool:
        """Whether a client is the same one with every seed: all have one cut, or sites have names
        of their own."""
        cuts = {e.experiment.run.seed_of_cut for e in self.entries if not e.pooled}
        named = any(name != f"client {n}" for n, name in enumerate(self.sites))
        return len(cuts) < 2 or named

    @cached_property
    def clients(self) -> int:
        """How many there are; those that pool all data count as one."""
        apart = [e for e in self.entries if not e.pooled] or list(self.entries)
        last = [e.history["client"].max() for e in apart if e.history.width]
        return max([len(self.sites), *(int(n) + 1 for n in last if isinstance(n, int))])

    def name_of(self, client: int) -> str:
        return self.sites[client] if client < len(self.sites) else f"client {client}"


class Reader(NamedTuple):
    """A kind of directory."""

    fits: Callable[[Path], bool]
    read: Callable[[Path], list[Group]]


def read_groups(folders: Sequence[Path]) -> list[Group]:
    """What some directories hold; runs on the same data and with the same metric form one group."""
    found: list[Group] = []
    single: list[Group] = []
    for folder in folders:
        reader = next((r for r in READERS if r.fits(folder)), None)
        if reader is None:
            raise AtollError(
                f"'{folder}' holds no run, comparison or study; name a directory that atoll run, "
                f"atoll compare or atoll study has made."
            )
        groups = reader.read(folder)
        (single if reader is _RUN else found).extend(groups)
    return [*found, *_joined(single)]


def _read_comparison(folder: Path) -> list[Group]:
    plan = read_comparison(folder)
    steps = [s for s in plan.steps() if (s.folder(folder) / "config.toml").is_file()]
    if not steps:
        raise AtollError(f"'{folder}' has no run yet; go on with: atoll resume {folder}")
    path = folder / "comparison.json"
    said = read_json(path).get("cautions", []) if path.is_file() else []
    entries = sorted(
        (Entry(s.label, s.folder(folder), s.experiment) for s in steps),
        key=lambda e: list(plan.methods).index(e.label),
    )
    commands = [f"atoll run {e.folder / 'config.toml'}" for e in entries]
    return [Group(folder, tuple(entries), plan.sites, tuple(said), tuple(commands))]


def _read_study(folder: Path) -> list[Group]:
    """One group for all cells on the same data, called after its rows."""
    plan = read_study(folder)
    several = len(plan.form.columns) > 1
    there: dict[str, list[tuple[str, Entry]]] = {}
    sites: dict[str, tuple[str, ...]] = {}
    for place in plan.form.cells:
        for step in (plan.step(place, seed) for seed in plan.seeds):
            run_dir = step.folder(folder / "runs")
            if (run_dir / "config.toml").is_file():
                entry = Entry(place[1] if several else place[0], run_dir, step.experiment)
                key = _about(entry)
                there.setdefault(key, []).append((place[0], entry))
                sites.setdefault(key, _names(run_dir))
    if not there:
        raise AtollError(f"'{folder}' has no run yet; go on with: atoll resume {folder}")
    groups = []
    for key, cells in there.items():
        rows = list(dict.fromkeys(row for row, _ in cells))
        if len(rows) > 1 and several:  # rows that share their data differ in something else
            cells = [(row, replace(e, label=f"{row} / {e.label}")) for row, e in cells]
        entries = tuple(entry for _, entry in cells)
        commands = tuple(f"atoll run {e.folder / 'config.toml'}" for e in entries)
        name = "" if len(rows) == 1 and not several else ", ".join(rows)
        groups.append(Group(folder, entries, sites[key], (), commands, name=name))
    return groups


def _names(folder: Path) -> tuple[str, ...]:
    """What clients are called, where a run has it on record."""
    path = folder / CLIENTS
    return tuple(map(str, read_json(path))) if path.is_file() else ()


def _read_run(folder: Path) -> list[Group]:
    experiment = read_experiment(folder)
    entry = Entry(experiment.method.registered_name, folder, experiment)
    deployed = is_deployed(folder)
    sites = tuple(map(str, read_plan(folder).sites)) if deployed else _names(folder)
    commands = () if deployed else (f"atoll run {folder / 'config.toml'}",)
    return [Group(folder, (entry,), sites, (), commands, deployed)]


_RUN = Reader(lambda folder: (folder / "config.toml").is_file(), _read_run)
READERS = [Reader(is_comparison, _read_comparison), Reader(is_study, _read_study), _RUN]


@dataclass
class _Joining:
    groups: list[Group] = field(default_factory=list)

    def group(self) -> Group:
        first = self.groups[0]
        entries = [entry for group in self.groups for entry in group.entries]
        twice = len({(e.label, e.seed) for e in entries}) < len(entries)
        if twice:  # the same method with other settings
            entries = [replace(e, label=f"{e.label} ({e.folder.name})") for e in entries]
        commands = tuple(c for group in self.groups for c in group.commands)
        sites = next((group.sites for group in self.groups if group.sites), ())
        return Group(first.origin, tuple(entries), sites, (), commands, first.deployed)


# What runs that are held against each other have in common.
_SHARED = ("data", "stress", "split", "partition", "task")


def _joined(groups: Sequence[Group]) -> list[Group]:
    """Single runs that can be held against each other, together."""
    alike: dict[str, _Joining] = {}
    for group in groups:
        where = [group.deployed, group.sites if group.deployed else ()]
        alike.setdefault(f"{_about(group.first)} {where}", _Joining()).groups.append(group)
    return [joining.group() for joining in alike.values()]


def _about(entry: Entry) -> str:
    """What runs that can be held against each other have in common."""
    table = describe(entry.experiment)
    same = {part: table.get(part) for part in _SHARED}
    return json.dumps([same, entry.metric], sort_keys=True, default=str)
