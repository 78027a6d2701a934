"""Sites in threads of this process: a fleet without an engine, whose faults tests decide."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import torch

from atoll.data.parties import write_parties
from atoll.deploy.coordinator import Coordinator
from atoll.deploy.fleet import Fleet
from atoll.deploy.journal import Journal
from atoll.deploy.plan import Terms, new_plan
from atoll.deploy.site import Site
from atoll.experiment.config import resolve
from atoll.experiment.result import store_setup
from atoll.experiment.runner import load_parties


class ThreadFleet(Fleet):
    """``fault(site, message)`` runs before a site answers: it may sleep, raise or return bytes."""

    def __init__(self, sites: dict[str, Site]) -> None:
        self.sites = dict(sites)
        self.down: set[str] = set()
        self.fault: Callable[[str, bytes], bytes | None] = lambda site, message: None
        self.transcript: list[bytes] = []
        self._pool = ThreadPoolExecutor(32)

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
        instead = self.fault(site, message)
        return self.sites[site].handle(message) if instead is None else instead

    def present(self, sites):
        return self.pinged([site for site in sites if site not in self.down], 1.0)


def experiment(folder: Path, method: str, rounds: int = 4, **run):
    perceptron = {"name": "mlp", "hidden": 8, "dropout": 0.0, "bias": False}
    own_model = method in ("mlp", "fed-mlp", "gfl-appnp")
    return resolve(
        {
            "data": {"name": "parties", "folder": str(folder)},
            "partition": {"name": "natural"},
            "split": {"kind": "public"},
            "model": perceptron if own_model else {"name": "gcn", "hidden": 8},
            "method": {"name": method},
            "run": {"rounds": rounds, "dtype": "float64", "threads": 1} | run,
        }
    )


def deployed(tmp_path: Path, graphs, method: str, **options):
    """A coordinator and its fleet over freshly written party folders."""
    folders = write_parties(graphs, tmp_path / "sites")
    terms = Terms(**({"deadline": 20.0, "patience": 5.0} | options.pop("terms", {})))
    chosen = experiment(tmp_path / "sites", method, **options)
    plan = new_plan("nvflare", tuple(f.name for f in folders), chosen, terms)
    sites = {f.name: Site(f, tmp_path / "state" / f.name) for f in folders}
    run_dir = tmp_path / "run"
    run_dir.mkdir(exist_ok=True)
    if chosen.method.needs_network:
        Journal(run_dir).keep_network(torch.from_numpy(load_parties(chosen).network.toarray()))
    plan.store(run_dir)
    store_setup(run_dir, chosen, 1)
    return Coordinator(plan, run_dir, ThreadFleet(sites))


def again(coordinator: Coordinator) -> Coordinator:
    """The same run, continued by a new coordinator and by sites that were started anew."""
    fleet = ThreadFleet({n: Site(s.data, s.state) for n, s in coordinator.fleet.sites.items()})
    return Coordinator(coordinator.plan, coordinator.run_dir, fleet)


def in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread
