"""A federation on this machine and a run on it, to which harm can be done."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from atoll.data.parties import party_folders, write_parties
from atoll.deploy.local import LocalFederation, federation
from atoll.deploy.plan import Terms, new_plan
from atoll.deploy.settings import SLOW
from atoll.deploy.up import site_names
from atoll.experiment.config import Experiment, describe, resolve
from atoll.experiment.result import Result, load_result
from atoll.experiment.run_dir import is_complete, store_setup
from atoll.experiment.runner import load_parties

# Is told the federation and the round that was completed.
Harm = Callable[[LocalFederation, int], None]
# A site's steps are slowed down to this, so that there is time to do harm.
STEP_SECONDS = {"nvflare": "0.4", "flower": "0"}
DIGITS = {"data": "digits", "partition": "louvain", "clients": 3}
CORA = {"data": "cora", "partition": "metis", "clients": 10, "hidden": 128}


class Case:
    """Sites' folders, what is run on them and its terms; each run has a folder of its own."""

    def __init__(
        self, root: Path, engine: str, method: str, rounds: int, of: dict | None = None,
        seed: int = 0, **terms: float,
    ) -> None:  # fmt: skip
        self.root, self.engine = root, engine
        self.again = partial(Case, engine=engine, method=method, rounds=rounds, of=of, **terms)
        if engine == "flower":
            # A message takes Flower seconds, since it starts a process for each.
            terms["deadline"] = 12 * terms.get("deadline", 5.0)
            rounds = {60: 8, 40: 8, 12: 4, 6: 3}.get(rounds, rounds)
        self.folder = root / "sites"
        whole = _experiment(of or DIGITS, method, rounds, seed)
        if not self.folder.is_dir():
            write_parties(load_parties(whole).graphs, self.folder)
        self.experiment = _of_parties(self.folder, whole)
        self.sites = site_names(party_folders(str(self.folder)))
        self.terms = Terms(**({"deadline": 60.0, "patience": 120.0} | terms))  # type: ignore[arg-type]
        self.slow = dict.fromkeys(self.sites, STEP_SECONDS[engine])
        for name in ("run", "up"):
            self.clear(name)

    def with_seed(self, seed: int) -> Case:
        """The same with another seed, in a folder of its own."""
        return self.again(root=self.root / f"seed-{seed}", seed=seed)

    def clear(self, name: str) -> None:
        """Remove what an earlier call has left of a run."""
        for left in (name, f"{name}-federation"):
            shutil.rmtree(self.root / left, ignore_errors=True)

    def run(
        self, harm: Harm = lambda stage, round: None, slow: dict[str, str] | None = None
    ) -> Result:
        """Run it; ``harm`` is called after every round that is seen."""
        with self.standing("run", slow) as (_, again):
            return again(harm)

    @contextmanager
    def standing(
        self, name: str, slow: dict[str, str] | None = None
    ) -> Iterator[tuple[LocalFederation, Callable[[Harm], Result]]]:
        """A federation that stands, and what begins its run or goes on with it."""
        plan = new_plan(self.engine, tuple(self.sites), self.experiment, self.terms)
        run_dir = self.run_dir = self.root / name
        run_dir.mkdir(exist_ok=True)
        store_setup(run_dir, self.experiment, 1)
        plan.store(run_dir)
        home = self.root / f"{name}-federation"
        with federation(home, self.engine, self.sites, self.slow | (slow or {})) as stage:

            def again(harm: Harm) -> Result:
                return stage.run(plan, run_dir, lambda round, _: harm(stage, round))

            yield stage, again

    def undisturbed(self) -> Result:
        """The same without harm, nor delay; once."""
        done = self.root / "undisturbed"
        if is_complete(done):
            return load_result(done, self.experiment)
        self.clear("undisturbed")
        with self.standing("undisturbed", dict.fromkeys(self.sites, "0")) as (_, again):
            return again(lambda stage, round: None)


def start_server_again(stage: LocalFederation) -> None:
    """In the place of one that has ended; the sites find it by themselves."""
    stage.operator.close()
    stage.start_server()
    stage.connect_operator()


def start_site_again(stage: LocalFederation, site: str) -> None:
    stage.start_site(site, {SLOW: STEP_SECONDS[stage.engine.name]})


def once(do: Callable[[LocalFederation], None], after: int) -> Harm:
    """Harm that is done after that round, and not again."""
    done: list[int] = []

    def harm(stage: LocalFederation, round: int) -> None:
        if round >= after and not done:
            done.append(round)
            do(stage)

    return harm


def sizes_of(result: Result) -> dict[int, int]:
    """How many sites were there, by round."""
    return dict(sorted(result.history.group_by("round").len().iter_rows()))


def sha(run_dir: Path) -> str:
    return hashlib.sha256((run_dir / "parameters.safetensors").read_bytes()).hexdigest()


def _experiment(of: dict, method: str, rounds: int, seed: int) -> Experiment:
    return resolve(
        {
            "data": {"name": of["data"]},
            "partition": {"name": of["partition"], "clients": of["clients"]},
            "split": {"kind": "random"},
            "method": {"name": method},
            "model": {"name": "gcn", "hidden": of.get("hidden", 16)},
            "run": {"rounds": rounds, "threads": 1, "seed": seed},
        }
    )


def _of_parties(folder: Path, whole: Experiment) -> Experiment:
    theirs = {
        "data": {"name": "parties", "folder": str(folder)},
        "partition": {"name": "natural"},
        "split": {"kind": "public"},
    }
    return resolve({**describe(whole), **theirs})
