"""What a comparison consists of, and the directory that holds it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from atoll.errors import AtollError
from atoll.experiment.config import Experiment, Metric, Table, describe, resolve
from atoll.experiment.metric import chosen_metric
from atoll.experiment.runner import load_whole, parties_of, site_names
from atoll.files import damaged, make_folder, write_json
from atoll.graph import Graph

ALONE = "local"
_PLAN = "plan.json"


class Step(NamedTuple):
    """One run of a comparison."""

    label: str
    seed: int
    experiment: Experiment

    def folder(self, out: Path) -> Path:
        return out / self.label / f"seed-{self.seed}"


@dataclass(frozen=True)
class Plan:
    """Methods by label, each to be run with every seed; ``sites`` are the clients' names.

    Who holds which node is the same with every seed, cut as the first one cuts it, so that a site
    is the same site throughout. Splits, initial models and training differ between seeds.
    """

    methods: dict[str, Experiment]
    seeds: tuple[int, ...]
    sites: tuple[str, ...]

    @property
    def first(self) -> Experiment:
        return next(iter(self.methods.values()))

    def steps(self) -> Iterator[Step]:
        """Seed by seed, so that what is done after an interruption can be compared."""
        for seed in self.seeds:
            for label, experiment in self.methods.items():
                run = replace(experiment.run, seed=seed)
                yield Step(label, seed, replace(experiment, run=run))

    def settings(self) -> dict[str, Table]:
        """Every method's config, as it is kept."""
        plain: dict[str, Table] = json.loads(
            json.dumps({label: describe(e) for label, e in self.methods.items()})
        )
        return plain


def make_plan(methods: Mapping[str, Experiment], seeds: int) -> Plan:
    """A comparison over so many seeds, counted from that of the experiments."""
    refuse_below_one("--seeds", seeds)
    if not methods:
        raise AtollError("there is no method to compare; name some, e.g. --methods local,fed-avg.")
    for label in methods:
        if not re.fullmatch(r"\w[\w.+-]*", label):
            raise AtollError(
                f"'{label}' can't be the name of a folder; use letters, digits, '-', '_' and '.'."
            )
    fixed = {label: _with_fixed_cut(experiment) for label, experiment in methods.items()}
    first = next(iter(fixed.values()))
    whole = load_whole(first)
    parties = parties_of(first, whole)
    metric = settled_metric(first, parties)
    same = {label: replace(e, run=replace(e.run, metric=metric)) for label, e in fixed.items()}
    return Plan(
        same, tuple(range(first.run.seed, first.run.seed + seeds)), site_names(whole, parties)
    )


def settled_metric(first: Experiment, parties: Sequence[Graph]) -> Metric:
    """One metric for all runs, as the first seed's training nodes call for it."""
    return cast(Metric, chosen_metric(first, parties)[0])


def refuse_below_one(name: str, value: int) -> None:
    if value < 1:
        raise AtollError(f"{name} is {value}; it must be at least 1.")


def _with_fixed_cut(experiment: Experiment) -> Experiment:
    run = experiment.run
    return replace(experiment, run=replace(run, cut_seed=run.seed_of_cut))


def is_comparison(folder: Path) -> bool:
    return (folder / _PLAN).is_file()


def open_folder(plan: Plan, out: Path | None) -> Path:
    """The directory of a comparison: a new one, or one that the same comparison has begun.

    Further seeds and methods may join what is there, as long as what both have is the same.
    """
    if out is None:
        stem = f"{time.strftime('%Y%m%d-%H%M%S')}-compare-{plan.first.data.registered_name}"
        names = (f"{stem}-{n}" if n else stem for n in range(10_000))
        out = next(path for path in map(Path("runs").joinpath, names) if not path.exists())
    refuse_files(out)
    if is_comparison(out):
        _refuse_another(plan, read_plan(out), out)
    kept = {"methods": plan.settings(), "seeds": plan.seeds, "sites": plan.sites}
    keep_plan(out, _PLAN, kept, "a comparison")
    return out


def refuse_files(out: Path) -> None:
    """Neither a folder to write to nor one above it may be a file."""
    for path in (out, *out.parents):
        if path.exists() and not path.is_dir():
            raise AtollError(f"'{path}' is a file; choose another --out.")


def keep_plan(out: Path, name: str, plan: Mapping[str, Any], what: str) -> None:
    """Write what a folder is for into it; one that holds anything but such work is refused."""
    refuse_files(out)
    if not (out / name).is_file() and out.is_dir() and any(out.iterdir()):
        raise AtollError(f"'{out}' holds something else than {what}; choose another --out.")
    try:
        make_folder(out)
        write_json(out / name, plan)
    except OSError as problem:
        raise AtollError(
            f"'{out}' can't be written to ({problem.strerror}); choose another --out."
        ) from None


def read_plan(out: Path) -> Plan:
    """The comparison that a directory holds."""
    try:
        kept = json.loads((out / _PLAN).read_text())
        tables, seeds, sites = kept["methods"], tuple(kept["seeds"]), tuple(kept["sites"])
        return Plan({label: resolve(t) for label, t in tables.items()}, seeds, sites)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise damaged(out / _PLAN, problem) from problem


def _refuse_another(plan: Plan, there: Plan, out: Path) -> None:
    """What a directory holds must be what is now asked for, as far as both have it."""
    refuse_other_settings(plan.settings(), there.settings(), out, "comparison")
    if plan.sites != there.sites:
        raise AtollError(f"'{out}' holds a comparison of other sites; choose another --out.")


def refuse_other_settings(
    new: Mapping[str, Table], old: Mapping[str, Table], out: Path, what: str
) -> None:
    """What both have by the same label must have the same settings."""
    for label in (label for label in new if label in old):
        for section, values in new[label].items():
            for key, value in values.items():
                before = old[label].get(section, {}).get(key)
                if value != before:
                    raise AtollError(
                        f"'{out}' holds another {what}: {label} has {section}.{key} = {before} "
                        f"there, not {value}; choose another --out."
                    )
