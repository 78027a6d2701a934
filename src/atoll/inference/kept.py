"""A finished run opened for use: its clients' graphs, and the models of its best round."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.errors import AtollError, unknown
from atoll.experiment.best import read_best
from atoll.experiment.config import Experiment
from atoll.experiment.result import Result, is_complete, load_result
from atoll.experiment.runner import load_parties, read_experiment
from atoll.graph import Graph
from atoll.methods.base import Method
from atoll.methods.client import Client
from atoll.rng import CohortRng
from atoll.tree import Kinds, Params, flat, nested, take


@dataclass(frozen=True)
class Kept:
    """The clients of a finished run, or some of them, with the models they were scored with."""

    result: Result
    graphs: tuple[Graph, ...]
    names: tuple[str, ...]
    # Their numbers in the federation.
    numbers: tuple[int, ...]
    # By kind; every leaf has a leading client axis.
    state: Kinds

    @property
    def experiment(self) -> Experiment:
        return self.result.experiment

    @property
    def method(self) -> Method:
        return self.experiment.method.scorer

    @property
    def params_K(self) -> Params:
        return self.state["model"]

    @property
    def class_names(self) -> tuple[str, ...]:
        graph = self.graphs[0]
        return graph.class_names or tuple(map(str, range(graph.classes)))

    def take(self, positions: list[int]) -> Kept:
        """Some of the clients."""
        return Kept(
            self.result,
            tuple(self.graphs[p] for p in positions),
            tuple(self.names[p] for p in positions),
            tuple(self.numbers[p] for p in positions),
            nested(take(flat(self.state), positions)),
        )

    def only(self, client: str) -> Kept:
        """One client, by its name or its number."""
        if client not in self.names and client.isdecimal() and int(client) < len(self.names):
            return self.take([int(client)])
        if client not in self.names:
            raise unknown("client of the run", client, self.names)
        return self.take([self.names.index(client)])

    def on(self, graphs: list[Graph]) -> tuple[Params, Cohort]:
        """The clients' models, and what models compute from on some graphs, one per client."""
        dtype = getattr(torch, self.experiment.run.dtype)
        cohort = Cohort(graphs, dtype=dtype)
        rng = CohortRng(self.experiment.run.seed, cohort.clients, 0, "use")
        seen = self.method.view(Client(self.method, cohort, rng, self.state))
        params_K = {name: p.contiguous() for name, p in self.params_K.items()}
        return params_K, seen.cohort

    def by_client(self, rows: Tensor, cohort: Cohort) -> list[Tensor]:
        """Each client's own nodes, of what was computed for all rows of a cohort."""
        blocks = torch.split(rows, list(cohort.sizes))
        return [block[: g.nodes] for block, g in zip(blocks, cohort.graphs, strict=True)]


def open_run(run_dir: Path) -> Kept:
    """The models of a run's best round, on the data that they were trained on."""
    experiment = read_experiment(run_dir)
    if not is_complete(run_dir):
        raise AtollError(f"'{run_dir}' is not complete; finish it with: atoll resume {run_dir}")
    method = experiment.method
    if not method.scores_plainly:
        raise AtollError(
            f"{method.registered_name} leaves no model that could be applied to nodes by itself "
            f"(each client's scores depend on more than its own graph); choose another method."
        )
    result = load_result(run_dir, experiment)
    graphs = load_parties(experiment).graphs
    sizes = [client["nodes"] for client in result.per_client]
    found = [graph.nodes for graph in graphs]
    if found != sizes:
        raise AtollError(
            f"'{run_dir}' was trained on clients of {_listed(sizes)} nodes, but its data now gives "
            f"{_listed(found)}; restore the data it was trained on."
        )
    state, _ = read_best(run_dir, len(graphs))
    numbers = tuple(range(len(graphs)))
    return Kept(result, tuple(graphs), client_names(graphs), numbers, state)


def client_names(graphs: list[Graph]) -> tuple[str, ...]:
    """What clients are called: their graphs' names without what all of these begin with."""
    names = [graph.name for graph in graphs]
    words = [name.split(" ") for name in names]
    common = 0
    if len(names) > 1:
        shortest = min(map(len, words)) - 1
        same = [len({w[i] for w in words}) == 1 for i in range(shortest)]
        common = shortest if all(same) else same.index(False)
    short = tuple(" ".join(w[common:]) for w in words)
    return short if len(set(short)) == len(short) else tuple(map(str, np.arange(len(names))))


def _listed(sizes: list[int]) -> str:
    return ", ".join(map(str, sizes))
