"""A few rounds of a method on small parties, to see what it does before anybody takes part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from atoll.data.in_memory import from_graph
from atoll.data.split import Split
from atoll.experiment.config import Experiment
from atoll.experiment.runner import load_parties, simulate
from atoll.federation.inprocess import InProcess
from atoll.federation.protocol import Replies, Total
from atoll.graph import Graph, Holding, make_graph
from atoll.partition.natural import Natural

PARTIES, COMMON, OWN, CLASSES, FEATURES = 4, 18, 15, 3, 24
ROUNDS = 3


class Trial(InProcess):
    """A simulation that remembers which steps were performed, also those that sent nothing."""

    steps: set[str]

    def ask(self, step: str, **request: Any) -> Replies:
        self.steps.add(step)
        return super().ask(step, **request)

    def sum(self, step: str, **request: Any) -> Total:
        self.steps.add(step)
        return super().sum(step, **request)


def tried(experiment: Experiment, rounds: int) -> Trial:
    """Some rounds of an experiment, later phases hurried, and what follows the last one.

    Nothing is written.
    """
    method = experiment.method.hurried()
    fed, state = simulate(replace(experiment, method=method), load_parties(experiment))
    trial = Trial(fed.host)
    trial.steps = set()
    for r in range(1, rounds + 1):
        trial.begin(r)
        state = method.round(trial, state, r)
        method.measure(trial, state)
    method.conclude(trial, state)
    return trial


def on_small_parties(experiment: Experiment) -> Experiment:
    """The same method on a small graph whose four parties share some nodes and links."""
    return replace(
        experiment,
        data=from_graph(small_graph()),
        partition=Natural(),
        split=Split(kind="public"),
    )


def small_graph() -> Graph:
    """Nodes with a few words per class; the first ones are held by all four parties."""
    rng = np.random.default_rng(0)
    n = COMMON + PARTIES * OWN
    y = np.arange(n) % CLASSES
    own_words = np.arange(FEATURES) % CLASSES == y[:, None]
    words = rng.random((n, FEATURES)) < np.where(own_words, 0.3, 0.06)
    links = np.where(y[:, None] == y, 0.3, 0.05)
    edges = np.argwhere(np.triu(rng.random((n, n)) < links, 1)).T
    x = sparse.csr_array(words.astype(np.float32))
    graph = make_graph(x, edges, y, classes=CLASSES, name="small")
    fold = np.arange(n) // CLASSES % 3
    return replace(
        graph, train=fold == 0, val=fold == 1, test=fold == 2, holdings=tuple(_holdings())
    )


def _holdings() -> list[Holding]:
    common = np.arange(COMMON)
    starts = [COMMON + k * OWN for k in range(PARTIES)]
    return [
        Holding(f"party {k}", np.concatenate([common, np.arange(start, start + OWN)]))
        for k, start in enumerate(starts)
    ]
