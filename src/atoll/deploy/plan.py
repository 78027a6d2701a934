"""What a deployed run is held to: which sites, which deadlines, how many must take part."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from atoll.errors import AtollError
from atoll.experiment.config import Experiment, build, describe, read_table, resolve
from atoll.experiment.result import store_setup
from atoll.files import write_toml
from atoll.options import check_options, option

FILE = "deployment.toml"


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Deadlines and numbers. Times are in seconds.

    ``deadline`` is for one request; a site that misses it sits out the rest of the round.
    ``quorum`` is how many sites must take part in a round, 0 for more than half. ``patience`` is
    how long the run waits for a quorum, and for all sites at its start. ``anchors`` says how they
    are matched: ``psi``, or ``hash``, which anybody with a dictionary of the ids can undo.
    """

    deadline: float = option(600.0, above=0)
    quorum: int = option(0, at_least=0)
    patience: float = option(600.0, above=0)
    anchors: Literal["psi", "hash"] = "psi"

    def __post_init__(self) -> None:
        check_options("terms", self)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A deployed run: an experiment, the sites in the order of their client numbers, and terms."""

    run: str
    engine: str
    sites: tuple[str, ...]
    experiment: Experiment
    terms: Terms

    @property
    def quorum(self) -> int:
        return self.terms.quorum or len(self.sites) // 2 + 1

    def table(self) -> dict[str, Any]:
        """The plan in plain values, for files and jobs."""
        return {
            "run": self.run,
            "engine": self.engine,
            "sites": list(self.sites),
            "terms": asdict(self.terms),
        }

    def store(self, run_dir: Path) -> None:
        write_toml(run_dir / FILE, self.table())


def new_plan(engine: str, sites: tuple[str, ...], experiment: Experiment, terms: Terms) -> Plan:
    """A plan for a new run, once it is clear that the method can be deployed at all."""
    method = experiment.method
    if method.pooled:
        raise AtollError(
            f"{method.registered_name} trains on everybody's data in one place, so it can't be "
            f"deployed; simulate it with: atoll run"
        )
    if method.only_simulated:
        raise AtollError(f"{method.registered_name} can't be deployed: {method.only_simulated}.")
    if len(set(sites)) != len(sites) or not sites:
        raise AtollError("the sites need different names, and there must be at least one.")
    if terms.quorum > len(sites):
        raise AtollError(
            f"quorum is {terms.quorum}, but there are {len(sites)} sites; ask for fewer."
        )
    if experiment.split.kind != "public":
        raise AtollError(
            f"split.kind is '{experiment.split.kind}', but a site's split lies in its own folder; "
            f"set split.kind=public."
        )
    table = describe(experiment)
    addresses = [v for part in table.values() for v in part.values() if callable(v)]
    if addresses:
        raise AtollError("a model made by a function of yours can't be deployed; register it.")
    name = f"{method.registered_name}-{secrets.token_hex(4)}"
    return Plan(run=name, engine=engine, sites=sites, experiment=experiment, terms=terms)


def plan_of(table: Mapping[str, Any], experiment: Experiment) -> Plan:
    terms = build(Terms, "terms", table["terms"])
    return Plan(
        run=table["run"],
        engine=table["engine"],
        sites=tuple(table["sites"]),
        experiment=experiment,
        terms=terms,
    )


def is_deployed(run_dir: Path) -> bool:
    return (run_dir / FILE).is_file()


def read_plan(run_dir: Path) -> Plan:
    """The plan a run directory belongs to."""
    table: Mapping[str, Any] = read_table(run_dir / FILE)
    try:
        return plan_of(table, resolve(read_table(run_dir / "config.toml")))
    except (KeyError, TypeError) as problem:
        raise AtollError(
            f"'{run_dir / FILE}' is damaged ({problem}); start the run anew."
        ) from None


def open_run(
    runs: Path, table: Mapping[str, Any], experiment: Mapping[str, Mapping[str, Any]]
) -> tuple[Plan, Path]:
    """A job's plan and its run directory, which an earlier job of the same run may have filled."""
    plan = plan_of(table, resolve(experiment))
    run_dir = runs / plan.run
    if not is_deployed(run_dir):
        run_dir.mkdir(parents=True, exist_ok=True)
        store_setup(run_dir, plan.experiment, plan.experiment.run.threads)
        plan.store(run_dir)
    return plan, run_dir
