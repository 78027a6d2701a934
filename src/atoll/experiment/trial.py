"""A few rounds of a method on small parties, to see what it does before anybody takes part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from atoll.data.in_memory import from_graph
from atoll.data.split import Split
from atoll.experiment.config import Experiment
from atoll.experiment.parties import load_parties, simulate
from atoll.federation.calls import Replies, Total
from atoll.federation.inprocess import InProcess
from atoll.graph import Graph, Holding, make_graph
from atoll.partition.natural import Natural

CLASSES, FEATURES = 3, 24
ROUNDS = 3
_PER_GRAPH = 4


@dataclass(frozen=True)
class SmallParties:
    """How many parties there are, what they hold in common and alone, and in which form."""

    features: int = FEATURES
    classes: int = CLASSES
    parties: int = 4
    common: int = 18
    own: int = 15
    # What the classes are called, where a run speaks of one by its name.
    class_names: tuple[str, ...] = ()
    # Whether they hold many small graphs, of four nodes each, that have a class.
    collection: bool = False

    @property
    def nodes(self) -> int:
        return self.common + self.parties * self.own


_USUAL = SmallParties()


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
    trial.averaging = fed.averaging
    trial.steps = set()
    for r in range(1, rounds + 1):
        trial.begin(r)
        state = method.round(trial, state, r)
        method.measure(trial, state)
    method.conclude(trial, state)
    return trial


def on_small_parties(experiment: Experiment, sizes: SmallParties = _USUAL) -> Experiment:
    """The same method on a small graph whose parties share some nodes and links."""
    return replace(
        experiment,
        data=from_graph(small_graph(sizes)),
        partition=Natural(),
        split=Split(kind="public"),
    )


def small_graph(sizes: SmallParties = _USUAL) -> Graph:
    """Nodes with a few words per class; the first ones are held by all parties."""
    rng = np.random.default_rng(0)
    n, classes, features = sizes.nodes, sizes.classes, sizes.features
    within = np.arange(n) // _PER_GRAPH if sizes.collection else np.arange(n)
    y = within % classes
    own_words = np.arange(features) % classes == y[:, None]
    words = rng.random((n, features)) < np.where(own_words, 0.3, 0.06)
    links = np.where(y[:, None] == y, 0.3, 0.05)
    if sizes.collection:
        links = (within[:, None] == within).astype(float)
    edges = np.argwhere(np.triu(rng.random((n, n)) < links, 1)).T
    x = sparse.csr_array(words.astype(np.float32))
    first = np.diff(within, prepend=-1) > 0
    graph = make_graph(x, edges, np.where(first, y, -1), classes=classes, name="small")
    if sizes.collection:
        graph = replace(graph, graph_of=within)
    if sizes.class_names:
        graph = replace(graph, class_names=sizes.class_names)
    fold = np.where(first, within // classes % 3, -1)
    return replace(
        graph, train=fold == 0, val=fold == 1, test=fold == 2, holdings=tuple(_holdings(sizes))
    )


def _holdings(sizes: SmallParties) -> list[Holding]:
    common, own = np.arange(sizes.common), sizes.own
    starts = [sizes.common + k * own for k in range(sizes.parties)]
    return [
        Holding(f"party {k}", np.concatenate([common, np.arange(start, start + own)]))
        for k, start in enumerate(starts)
    ]
