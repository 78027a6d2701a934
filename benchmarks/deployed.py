"""Every registered method on real engines of this machine, beside the simulation.

    python benchmarks/deployed.py [--engine nvflare] [--methods fed-avg,fed-pub] [--rounds 3]
        [--hidden 16] [--dtype float64] [--data digits] [--keep]

Three sites on loopback, secured. For every method: the largest difference of any score or final
parameter of the server from the simulation with the same seed, and the seconds per round. Exits
with 1 if a difference is above 1e-6. ``--keep`` puts the differences into docs/deployment.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

import findings
from atoll.data.parties import party_folders, write_parties
from atoll.deploy.journal import Journal
from atoll.deploy.local import LocalFederation, federation
from atoll.deploy.plan import Terms, new_plan
from atoll.deploy.up import site_names
from atoll.errors import AtollError
from atoll.experiment.config import Experiment, resolve
from atoll.experiment.result import Result
from atoll.experiment.run_dir import store_setup
from atoll.experiment.runner import load_parties, run_experiment
from atoll.leaves import Ragged
from atoll.methods.base import methods
from atoll.parquet import read_parquet
from atoll.tree import subtree

_PERCEPTRON = {"name": "mlp", "dropout": 0.0, "bias": False}
_MODELS = dict.fromkeys(("mlp", "fed-mlp", "gfl-appnp"), _PERCEPTRON)
# Every kind of message once is enough where Flower takes many seconds for each.
_BRIEF = {"fed-sage-plus": {"exchanges": 1}, "gfl-appnp": {"epochs": 2}}
_TERMS = Terms(deadline=300.0, patience=120.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="nvflare")
    parser.add_argument("--methods", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--data", default="digits")
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    names = given.methods.split(",") if given.methods else list(methods)
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder, on_stage(Path(folder), given) as stage:
        print("method | max difference | start s | s per round | simulated s per round", flush=True)
        for name in names:
            try:
                line, difference = _one(stage, Path(folder), given, name)
            except AtollError as problem:
                line, difference = str(problem), 0.0 if methods[name].pooled else 1.0
            worst = max(worst, difference)
            if given.keep and not methods[name].pooled:
                findings.keep("methods", name, given.engine, f"{difference:.1e}")
            print(f"{name} | {line}", flush=True)
    return int(worst > 1e-6)


@contextmanager
def on_stage(root: Path, given: argparse.Namespace) -> Iterator[LocalFederation]:
    """A federation of three sites on this machine, under a folder that holds all of it."""
    cut = {"data": {"name": given.data}, "partition": {"name": "louvain-anchors", "clients": 3}}
    write_parties(load_parties(resolve(cut | {"method": {"name": "local"}})).graphs, root / "s")
    sites = site_names(party_folders(str(root / "s")))
    started = time.monotonic()
    with federation(root / "federation", given.engine, sites) as stage:
        stage.seconds = time.monotonic() - started
        print(f"{given.engine}: up in {stage.seconds:.1f} s", flush=True)
        yield stage


def deploy(
    stage: LocalFederation, root: Path, engine: str, chosen: Experiment
) -> tuple[Result, float]:
    """A run's result, and the seconds from its submission to the start of its first round."""
    plan = new_plan(engine, tuple(stage.sites), chosen, _TERMS)
    run_dir = root / plan.run
    run_dir.mkdir()
    store_setup(run_dir, chosen, 1)
    if chosen.method.needs_network:
        network = load_parties(chosen).network
        Journal(run_dir).keep_network(torch.from_numpy(network.toarray()))
    plan.store(run_dir)
    begun: list[float] = []
    started = time.monotonic()
    result = stage.run(plan, run_dir, lambda *_: begun.append(time.monotonic() - started))
    return result, begun[0] - seconds_a_round(result)[0]


def seconds_a_round(result: Result) -> list[float]:
    return read_parquet(result.run_dir / "rounds.parquet")["seconds"].to_list()


def _one(
    stage: LocalFederation, root: Path, given: argparse.Namespace, name: str
) -> tuple[str, float]:
    chosen = experiment(root / "s", name, given)
    result, start = deploy(stage, root, given.engine, chosen)
    simulated = run_experiment(chosen, root / f"simulated-{result.run_dir.name}")
    difference, where = _difference(result, simulated)
    seconds = f"{result.seconds_per_round:.3f} | {simulated.seconds_per_round:.3f}"
    return f"{difference:.1e} in {where} | {start:.1f} | {seconds}", difference


def _difference(one: Result, other: Result) -> tuple[float, str]:
    """The largest difference of a score or a parameter of the server, and where it is."""
    found = [(0.0, "nowhere")]
    a, b = subtree(one.parameters, "server"), subtree(other.parameters, "server")
    if set(a) != set(b) or one.history.shape != other.history.shape:
        return float("inf"), "shapes"
    for name, leaf in a.items():
        left, right = (x.values if isinstance(x, Ragged) else x for x in (leaf, b[name]))
        if left.shape != right.shape:
            return float("inf"), name
        if left.numel():
            found.append((float((left.double() - right.double()).abs().max()), name))
    for column in one.history.columns:
        left, right = (r.history[column].fill_null(-1).to_torch().double() for r in (one, other))
        found.append((float((left - right).abs().max()), column))
    return max(found)


def experiment(folder: Path, method: str, given: argparse.Namespace) -> Experiment:
    return resolve(
        {
            "data": {"name": "parties", "folder": str(folder)},
            "partition": {"name": "natural"},
            "split": {"kind": "public"},
            "model": _MODELS.get(method, {"name": "gcn"}) | {"hidden": given.hidden},
            "method": {"name": method} | _BRIEF.get(method, {}),
            "run": {"rounds": given.rounds, "threads": 1, "dtype": given.dtype},
        }
    )


if __name__ == "__main__":
    sys.exit(main())
