"""A run on a federation that is set up on this machine for it, and ended with it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import torch

from atoll.data.parties import party_folders
from atoll.data.party_agreement import all_of, load_alike
from atoll.deploy.admission import plugins_of
from atoll.deploy.engines import engine_named
from atoll.deploy.journal import FOLDER, Journal, way_on
from atoll.deploy.local import Say, federation
from atoll.deploy.network import read_network
from atoll.deploy.plan import Plan, Terms, new_plan, read_plan
from atoll.deploy.policy.default import open_table, policy_at
from atoll.errors import AtollError
from atoll.experiment.config import Experiment, describe
from atoll.experiment.result import Result, load_result
from atoll.experiment.run_dir import is_complete, new_run_dir, store_setup
from atoll.experiment.runner import Progress, load_parties
from atoll.files import held, write_json, write_toml
from atoll.methods.base import Method

_FEDERATION = "federation"


def up(
    folder: str,
    experiment: Experiment,
    engine: str,
    terms: Terms,
    out: Path | None = None,
    progress: Progress | None = None,
    network: Path | None = None,
    say: Say = lambda phase: None,
    policy: Path | None = None,
) -> Result:
    """Run an experiment with a real server and one real process per site, and end them all.

    ``say`` is told what has been done before the first round. The sites keep to ``policy``; without
    one, to a policy that is made for this run and admits what it needs and no more, since all sites
    are the user's own.
    """
    engine_named(engine).require()
    policy_at(policy)  # what is wrong with it is said before anything is written
    sites = site_names(party_folders(folder))
    plan = new_plan(engine, tuple(sites), experiment, terms)
    say(looked_at(list(sites.values()), experiment.method))
    run_dir = new_run_dir(experiment, out).resolve()
    run_dir.chmod(0o700)  # while there is nothing in it
    store_setup(run_dir, experiment, experiment.run.threads, clients=plan.sites)
    plan.store(run_dir)
    rules = _policy_for(run_dir, experiment) if policy is None else policy.resolve()
    facts = {"folder": str(Path(folder).resolve()), "policy": str(rules)}
    write_json(run_dir / FOLDER, facts)
    if experiment.method.needs_network:
        _lay_down_network(run_dir, experiment, network, plan)
    return _seen_through(plan, run_dir, sites, rules, progress, say)


def _policy_for(run_dir: Path, experiment: Experiment) -> Path:
    """A policy under which sites of one's own do what a run asks for, its plug-ins included."""
    file = run_dir / _FEDERATION / "policy.toml"
    plugins = list(plugins_of(describe(experiment)))
    write_toml(file, open_table(experiment) | {"code": {"admit": plugins}})
    return file


def looked_at(folders: list[Path], method: Method) -> str:
    """What folders hold, in words, once it is clear that their sites can take part."""
    graphs = load_alike(folders)
    missing = [method.task.missing(graph) if method.needs_labels else "" for graph in graphs]
    wrong = [
        f"'{folder}' has no {what}; name the column with the split under [columns] of its "
        f"party.toml, or have one drawn with [split]."
        for folder, what in zip(folders, missing, strict=True)
        if what
    ]
    if wrong:
        raise AtollError(all_of(wrong, len(folders)))
    first, nodes = graphs[0], sum(graph.nodes for graph in graphs)
    return (
        f"folders: {len(folders)} read, {nodes} nodes, {first.features} features, {first.classes} "
        f"classes"
    )


def resume_up(
    run_dir: Path, progress: Progress | None = None, say: Say = lambda phase: None
) -> Result:
    """Start the federation of an interrupted run again and continue it."""
    run_dir = run_dir.resolve()
    plan = read_plan(run_dir)
    engine_named(plan.engine).require()
    if is_complete(run_dir):
        return load_result(run_dir, plan.experiment)
    file = run_dir / FOLDER
    if not file.is_file():
        raise AtollError(
            f"'{run_dir}' is a run of a server with sites elsewhere; continue it with: "
            f"{way_on(run_dir)}"
        )
    facts = json.loads(file.read_text())
    sites = site_names(party_folders(facts["folder"]))
    say(looked_at(list(sites.values()), plan.experiment.method))
    named = facts.get("policy")  # not in runs of earlier versions
    policy = Path(named) if named else _policy_for(run_dir, plan.experiment)
    return _seen_through(plan, run_dir, sites, policy, progress, say)


def _seen_through(
    plan: Plan,
    run_dir: Path,
    sites: dict[str, Path],
    policy: Path,
    progress: Progress | None,
    say: Say,
) -> Result:
    """On a federation of its own, which no other process sets up in the same place meanwhile."""
    home = run_dir / _FEDERATION
    with held(home), federation(home, plan.engine, sites, say=say, policy=policy) as stage:
        return stage.run(plan, run_dir, progress)


def site_names(folders: list[Path]) -> dict[str, Path]:
    """The parties' folders as names that certificates can bear."""
    names: dict[str, Path] = {}
    for folder in folders:
        plain = re.sub(r"[^A-Za-z0-9]+", "-", folder.name).strip("-")[:50] or "site"
        number, name = 1, plain
        while name in names:
            number += 1
            name = f"{plain}-{number}"
        names[name] = folder
    return names


def _lay_down_network(run_dir: Path, experiment: Experiment, file: Path | None, plan: Plan) -> None:
    """The network among sites: from a file, or counted from the folders, which are all here."""
    if file is not None:
        matrix = read_network(file, plan.sites)
    else:
        counted = load_parties(experiment).network
        assert counted is not None
        matrix = torch.from_numpy(counted.toarray())
    Journal(run_dir).keep_network(matrix)
