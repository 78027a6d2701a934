"""What a deployed run is held to: which sites, which deadlines, how many must take part."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from atoll.device import CPU
from atoll.errors import AtollError
from atoll.experiment.config import Experiment, read_table, resolve
from atoll.experiment.fields import build
from atoll.experiment.protected import refuse_in_vain
from atoll.experiment.run_dir import store_setup
from atoll.files import write_toml
from atoll.options import check_options, option
from atoll.plugins import addresses_named, origin

FILE = "deployment.toml"
# No dot: beside the folders of runs lie files of the server's and the sites' own, which have one.
_RUN = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Deadlines and numbers. Times are in seconds.

    ``deadline`` is for one request; a site that misses it sits out the rest of the round.
    ``quorum`` is how many sites must take part in a round, 0 for more than half. ``patience`` is
    how long the run waits for a quorum, and for all sites at its start.
    """

    deadline: float = option(600.0, above=0)
    quorum: int = option(0, at_least=0)
    patience: float = option(600.0, above=0)

    def __post_init__(self) -> None:
        check_options("terms", self)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A deployed run: an experiment, the sites in the order of their client numbers, and terms.

    ``job`` is the word of one of its jobs; the run itself has none.
    """

    run: str
    engine: str
    sites: tuple[str, ...]
    experiment: Experiment
    terms: Terms
    job: str = ""

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
        } | ({"job": self.job} if self.job else {})

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
    if experiment.run.device != CPU:
        raise AtollError(
            f"run.device is '{experiment.run.device}', which is for simulations; sites compute on "
            f"their CPU: set run.device=cpu."
        )
    if experiment.run.cluster_scores:
        raise AtollError(
            "run.cluster_scores is for simulations; leave it out, and score a site's embeddings "
            "there with: atoll embed --state FOLDER --cluster --out FILE"
        )
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
    if experiment.stress.rates:
        raise AtollError(
            f"stress.{next(iter(experiment.stress.rates))} makes data worse, which a site's own "
            f"are never; leave it out, or write worse ones for a rehearsal with: atoll split"
        )
    _refuse_code_without_a_file(experiment)
    refuse_in_vain(experiment, len(sites))
    called = re.sub(r"[^A-Za-z0-9_-]", "-", method.registered_name)[:80]
    name = f"{called}-{secrets.token_hex(4)}"
    return Plan(run=name, engine=engine, sites=sites, experiment=experiment, terms=terms)


def is_run_name(name: str) -> bool:
    """Whether a folder may be called so: a name that comes from elsewhere must not lead away."""
    return bool(_RUN.fullmatch(name))


def _refuse_code_without_a_file(experiment: Experiment) -> None:
    """Sites have files of their own for a plug-in; what was typed into a session has none."""
    method = experiment.method
    for part in (method, method.task, method.model, method.optimizer):
        factory = getattr(part, "factory", "")
        own = type(part).__module__.startswith("atoll.")
        if (callable(factory) and origin(factory) is None) or not (own or origin(type(part))):
            raise AtollError(
                f"the code of '{part.registered_name}' is in no file that sites could have, so it "
                f"can't be deployed; put it into a .py file, at its outermost level."
            )


def plan_of(table: Mapping[str, Any], experiment: Experiment) -> Plan:
    terms, sites = build(Terms, "terms", table["terms"]), table["sites"]
    if not isinstance(sites, list | tuple) or not all(isinstance(site, str) for site in sites):
        raise AtollError(f"'sites' must be a list of names; it can't be {sites!r}.")
    return Plan(
        run=_run_name(table),
        engine=table["engine"],
        sites=tuple(sites),
        experiment=experiment,
        terms=terms,
        job=str(table.get("job", "")),
    )


def _run_name(table: Mapping[str, Any]) -> str:
    name = table["run"]
    if not isinstance(name, str) or not is_run_name(name):
        raise AtollError(f"{name!r} is no name of a run; it has letters, digits, '_' and '-' only.")
    return name


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


def _refuse_unsubmitted(run_dir: Path, experiment: Mapping[str, Any]) -> None:
    """A job comes over a wire: it names no code but that of a run handed in on this machine."""
    named = set(addresses_named(experiment))
    if not named:
        return
    there = read_table(run_dir / "config.toml") if is_deployed(run_dir) else {}
    if not named <= set(addresses_named(there)):
        raise AtollError(
            f"the job names the plug-in {min(named)}, which no run that was handed in on this "
            f"machine has; submit it here with: atoll submit"
        )


def open_run(
    runs: Path, table: Mapping[str, Any], experiment: Mapping[str, Mapping[str, Any]]
) -> tuple[Plan, Path]:
    """A job's plan and its run directory, which an earlier job of the same run may have filled."""
    run_dir = runs / _run_name(table)
    _refuse_unsubmitted(run_dir, experiment)
    plan = plan_of(table, resolve(experiment))
    if not is_deployed(run_dir):
        run_dir.mkdir(parents=True, exist_ok=True)
        store_setup(run_dir, plan.experiment, plan.experiment.run.threads)
        plan.store(run_dir)
    return plan, run_dir
