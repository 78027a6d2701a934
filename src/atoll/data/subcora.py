"""GFL's small subgraphs of Cora."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from atoll.data.base import Dataset, datasets
from atoll.errors import AtollError
from atoll.graph import Graph
from atoll.options import option
from atoll.rng import stream

_SAMPLE = 800
_SMALLEST, _LARGEST = 30, 50
_SPREAD = 2.5
_DEPTH = 2
_MOST_TRIES = 100_000


@datasets.register("subcora")
@dataclass(frozen=True, kw_only=True)
class SubCora(Dataset):
    """300 papers of Cora around a connected training set of all 7 topics, as GFL draws them.

    Wu et al., 2022, Appendix A.2.1: (1) draw 800 nodes of Cora; (2) a connected component of the
    graph among them is a training set if it has 30 to 50 nodes, all 7 classes, and class counts
    whose standard deviation is at most 2.5; (3) of the nodes within two steps of it, as many as it
    has validate, and test nodes make up 300 in all. ``seed`` picks the subgraph; draws that yield
    no training set are repeated.

    Choices where the text is silent: the whole of Cora, not its largest component; steps in the
    whole of Cora (the component has no neighbours among the 800); test nodes from within two
    steps too, and a component with fewer than 300 nodes within reach is passed over; the standard
    deviation of the population; if a draw has several such components, the first. Words are as
    they are unless ``normalise`` divides them by their number. The split comes with the graph.
    """

    seed: int = 0
    nodes: int = option(300, above=2 * _LARGEST, why="so that nodes are left to test on")
    normalise: bool = False

    def load(self) -> Graph:
        cora = datasets["cora"](largest_component=False, normalise=self.normalise).load()  # type: ignore[call-arg]
        return surrounded_component(cora, self.nodes, stream(self.seed, "subcora"))


def surrounded_component(cora: Graph, nodes: int, rng: np.random.Generator) -> Graph:
    """The steps above on a graph of any size; the induced graph with its split."""
    for _ in range(_MOST_TRIES):
        sample = np.sort(rng.choice(cora.nodes, size=min(_SAMPLE, cora.nodes), replace=False))
        for train in _training_sets(cora, sample):
            around = np.setdiff1d(_within_reach(cora, train), train)
            if len(train) + len(around) < nodes:
                continue
            val, test, _ = np.split(rng.permutation(around), [len(train), nodes - len(train)])
            return _split_graph(cora, train, val, test)
    raise AtollError(
        f"{_MOST_TRIES} draws of {cora.name} gave no training set with {nodes} nodes around it; "
        f"lower data.nodes."
    )


def _training_sets(cora: Graph, sample: np.ndarray) -> list[np.ndarray]:
    among = cora.adjacency[sample][:, sample]
    _, component = sparse.csgraph.connected_components(among, directed=False)
    size = np.bincount(component)
    found = []
    for c in np.flatnonzero((size >= _SMALLEST) & (size <= _LARGEST)):
        members = sample[component == c]
        counts = np.bincount(cora.y[members], minlength=cora.classes)
        if counts.min() > 0 and counts.std() <= _SPREAD:
            found.append(members)
    return found


def _within_reach(cora: Graph, start: np.ndarray) -> np.ndarray:
    reached = np.zeros(cora.nodes)
    reached[start] = 1
    for _ in range(_DEPTH):
        reached += cora.adjacency @ reached
    return np.flatnonzero(reached)


def _split_graph(cora: Graph, train: np.ndarray, val: np.ndarray, test: np.ndarray) -> Graph:
    chosen = np.sort(np.concatenate([train, val, test]))
    return replace(
        cora.subgraph(chosen, name="subCora"),
        train=np.isin(chosen, train),
        val=np.isin(chosen, val),
        test=np.isin(chosen, test),
    )
