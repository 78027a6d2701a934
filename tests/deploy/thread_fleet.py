"""Sites in threads of this process: a fleet without an engine, whose faults tests decide."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import torch

from atoll.data.parties import write_parties
from atoll.deploy.coordinator import Coordinator
from atoll.deploy.door import Door
from atoll.deploy.envelope import opened, sealed
from atoll.deploy.fleet import Fleet
from atoll.deploy.identity import identity_of
from atoll.deploy.journal import Journal
from atoll.deploy.keyring import enrol
from atoll.deploy.plan import Terms, new_plan
from atoll.deploy.policy.default import open_policy
from atoll.deploy.policy.rules import Policy
from atoll.deploy.site import Site
from atoll.deploy.voice import parted, voice_of
from atoll.experiment.config import resolve
from atoll.experiment.run_dir import store_setup
from atoll.experiment.runner import load_parties
from atoll.files import write_json

OPEN = open_policy()  # parties of a test are its own, and small


class ThreadFleet(Fleet):
    """``fault(site, content)`` runs before a site answers: it may sleep, raise or return content.

    What it returns is signed by that site: it stands for a site that misbehaves.
    """

    def __init__(self, sites: dict[str, Site]) -> None:
        self.sites = dict(sites)
        self.doors = {name: self._door(name) for name in sites}
        self.down: set[str] = set()
        self.fault: Callable[[str, bytes], bytes | None] = lambda site, message: None
        self.transcript: list[bytes] = []
        self._pool = ThreadPoolExecutor(32)

    def _door(self, name):
        site = self.sites[name]
        # To the site of that name, which a test may exchange for another.
        return Door(site.identity, site.state, lambda *given: self.sites[name].handle(*given))

    def exchange(self, messages, seconds):
        self.transcript += messages.values()
        tasks = {
            site: self._pool.submit(self._answer, site, message)
            for site, message in messages.items()
            if site not in self.down
        }
        wait(tasks.values(), timeout=seconds)
        replies = {
            site: task.result()
            for site, task in tasks.items()
            if task.done() and not task.exception() and site not in self.down
        }
        self.transcript += replies.values()
        return replies

    def _answer(self, site, message):
        door = self.doors[site]
        label, content = opened(door.identity.coordinator, "request", parted(message)[1])
        instead = self.fault(site, content)
        if instead is None:
            return door.handle(message)
        return sealed(door.identity.signing, "answer", label, instead)

    def present(self, sites):
        return self.pinged([site for site in sites if site not in self.down], 1.0)


# Steps enough to see that numbers agree.
_SHORT = {"o-pfgl": {"fit_steps": 20, "steps": 20}}


def experiment(folder: Path, method: str, rounds: int = 4, task=None, privacy=None, **run):
    perceptron = {"name": "mlp", "hidden": 8, "dropout": 0.0, "bias": False}
    own_models = dict.fromkeys(("mlp", "fed-mlp", "gfl-appnp"), perceptron)
    own_models["fed-aux"] = {"name": "aux-gcn", "hidden": 8}
    own_models["fed-iih"] = {"name": "disen", "hidden": 8}
    own_models["fed-star"] = {"name": "star-gin", "hidden": 8}
    return resolve(
        {
            "data": {"name": "parties", "folder": str(folder)},
            "partition": {"name": "natural"},
            "split": {"kind": "public"},
            "task": task or {"name": "nodes"},
            "model": own_models.get(method, {"name": "gcn", "hidden": 8}),
            "method": {"name": method} | _SHORT.get(method, {}),
            "run": {"rounds": rounds, "dtype": "float64", "threads": 1} | run,
            "privacy": privacy or {},
        }
    )


def deployed(tmp_path: Path, graphs, method: str, **options):
    """A coordinator and its fleet over freshly written party folders."""
    return deployed_on(write_parties(graphs, tmp_path / "sites"), tmp_path, method, **options)


def deployed_on(folders: list[Path], tmp_path: Path, method: str, **options):
    """A coordinator and its fleet over party folders in one folder."""
    terms = Terms(**({"deadline": 20.0, "patience": 5.0} | options.pop("terms", {})))
    policy = options.pop("policy", OPEN)
    chosen = experiment(folders[0].parent, method, **options)
    plan = new_plan("nvflare", tuple(f.name for f in folders), chosen, terms)
    kits = keys_of(tmp_path / "kits", plan.sites)
    sites = {
        f.name: site(f, tmp_path / "state" / f.name, kits / f"site-{f.name}", policy)
        for f in folders
    }
    run_dir = tmp_path / "run"
    run_dir.mkdir(exist_ok=True)
    if chosen.method.needs_network:
        Journal(run_dir).keep_network(torch.from_numpy(load_parties(chosen).network.toarray()))
    plan.store(run_dir)
    store_setup(run_dir, chosen, 1)
    return Coordinator(plan, run_dir, ThreadFleet(sites), voice_of(kits / "server"))


def keys_of(kits: Path, sites) -> Path:
    """Kits with nothing but the keys that messages are signed with."""
    for name in ("server", *(f"site-{site}" for site in sites)):
        write_json(kits / name / "atoll.json", {"name": name.removeprefix("site-")})
    enrol(kits, list(sites))
    return kits


def site(data: Path, state: Path, kit: Path, policy: Policy = OPEN) -> Site:
    return Site(data, state, identity=identity_of(kit, state), policy=policy)


def again(coordinator: Coordinator) -> Coordinator:
    """The same run, continued by a new coordinator and by sites that were started anew."""
    before = coordinator.fleet.sites
    sites = {
        n: Site(s.data, s.state, identity=s.identity, policy=s.policy) for n, s in before.items()
    }
    return Coordinator(coordinator.plan, coordinator.run_dir, ThreadFleet(sites), coordinator.voice)


def in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread
