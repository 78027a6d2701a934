"""Contextual stochastic block models: GFL's graphs with one data point per node."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from atoll.data.base import Dataset, datasets
from atoll.data.connectivity import connectivity
from atoll.errors import AtollError
from atoll.graph import Graph, make_graph, node_mask, undirected_edges
from atoll.options import option
from atoll.rng import stream

MOST_NODES = 10_000
LARGER = "for larger graphs there is 'communities'"
_MOST_TRIES = 1_000


@dataclass(frozen=True, eq=False)
class Blocks:
    """A drawn network: the class of each node as -1 or 1 ``[N]``, and the links ``[2, e]``."""

    sign: np.ndarray
    edges: np.ndarray

    @property
    def adjacency(self) -> sparse.csr_array:
        ones = np.ones(self.edges.shape[1])
        return sparse.csr_array((ones, tuple(self.edges)), shape=(len(self.sign),) * 2)

    @property
    def connected(self) -> bool:
        count, _ = sparse.csgraph.connected_components(self.adjacency, directed=False)
        return bool(count == 1)


@dataclass(frozen=True, kw_only=True)
class ContextualSBM(Dataset):
    """A contextual stochastic block model (Deshpande et al., 2018) of two classes.

    With N = ``nodes``, d = ``degree``, lambda = ``community_signal``, mu = ``feature_signal`` and
    p = ``features``: each node has a sign v_i, -1 or 1 with equal chance; nodes i and j are linked
    with probability ``(d + lambda sqrt(d) v_i v_j) / N``; features are
    ``x_i = sqrt(mu/N) v_i u + Z_i / sqrt(p)`` with ``u ~ N(0, I_p/p)`` and Z_i standard normal.

    ``graph_seed`` draws the network, u and the split; ``seed`` draws the data on it: GFL repeats
    its experiments on a fixed network with new data. With ``graph_seed = -1`` the network follows
    ``seed``, too, so that repetitions are over networks. The split is the paper's own and comes
    with the graph. ``connected`` draws networks until one is connected; ``degree`` controls how
    well (see :meth:`connectivity`).
    """

    nodes: int = option(200, at_least=2, at_most=MOST_NODES, why=LARGER)
    degree: float = option(8.0, at_least=0)
    community_signal: float = 2.0
    feature_signal: float = option(1.0, at_least=0)
    features: int = option(100, at_least=1)
    connected: bool = False
    seed: int = 0
    graph_seed: int = option(0, at_least=-1, why="-1 means that it follows data.seed")

    def __post_init__(self) -> None:
        super().__post_init__()
        for link in self._link_probabilities():
            if not 0 <= link <= 1:
                raise AtollError(
                    f"data.degree {self.degree:g} and data.community_signal "
                    f"{self.community_signal:g} make a link probability of {link:g} with "
                    f"{self.nodes} nodes; the signal is at most the root of the degree, and the "
                    f"degree well below the nodes."
                )

    def _link_probabilities(self) -> tuple[float, float]:
        """Between nodes of different sign, and of the same sign."""
        shift = self.community_signal * self.degree**0.5
        return (self.degree - shift) / self.nodes, (self.degree + shift) / self.nodes

    @property
    def phi(self) -> float:
        """How much the links say compared with the features, from 0 to 1 (Chien et al., 2021).

        ``2/pi arctan(lambda sqrt(N/p) / mu)``
        """
        links = self.community_signal * (self.nodes / self.features) ** 0.5
        return float(2 / np.pi * np.arctan2(links, self.feature_signal))

    @property
    def network_seed(self) -> int:
        return self.seed if self.graph_seed < 0 else self.graph_seed

    def blocks(self) -> Blocks:
        """The network, which depends on ``graph_seed`` alone, unless it follows the data's seed."""
        rng = stream(self.network_seed, self.registered_name, "network")
        unlike, like = self._link_probabilities()
        first, second = np.triu_indices(self.nodes, k=1)
        for _ in range(_MOST_TRIES):
            sign = np.where(rng.random(self.nodes) < 0.5, 1, -1)
            linked = rng.random(len(first)) < np.where(sign[first] == sign[second], like, unlike)
            edges = undirected_edges(np.stack([first[linked], second[linked]]), self.nodes)
            drawn = Blocks(sign, edges)
            if not self.connected or drawn.connected:
                return drawn
        raise AtollError(
            f"{_MOST_TRIES} networks of degree {self.degree:g} were drawn and none is connected; "
            f"raise data.degree or set data.connected to false."
        )

    def connectivity(self) -> float:
        """``lambda_max(B_N L^+)`` of the network: smaller is better connected."""
        return connectivity(self.blocks().adjacency)

    def direction(self) -> np.ndarray:
        """The vector u along which the classes differ ``[p]``."""
        rng = stream(self.network_seed, self.registered_name, "direction")
        direction: np.ndarray = rng.normal(size=self.features) / self.features**0.5
        return direction


@datasets.register("csbm-dnc")
@dataclass(frozen=True, kw_only=True)
class DeterministicNodes(ContextualSBM):
    """GFL's synthetic graph: 200 nodes, 100 features, 2 classes, one data point per node (cSBM).

    Deterministic node classification, Wu et al., 2022, Appendix A.2.1: d = 8, lambda = 2, mu = 1,
    N = 200, p = 100; 10 % of the nodes train, 10 % validate, 80 % test; the training nodes are
    balanced and connected among themselves. See :class:`ContextualSBM` for the model and
    :func:`grown_set` for how such nodes are found. Use it with ``node-per-client``.
    """

    def load(self) -> Graph:
        blocks = self.blocks()
        rng = stream(self.seed, self.network_seed, self.registered_name, "data")
        noise = rng.normal(size=(self.nodes, self.features)) / self.features**0.5
        strength = (self.feature_signal / self.nodes) ** 0.5
        x = strength * np.outer(blocks.sign, self.direction()) + noise
        graph = make_graph(
            x.astype(np.float32),
            blocks.edges,
            label_of(blocks.sign),
            classes=2,
            name=self.registered_name,
        )
        train, val, test = node_split(blocks, self.network_seed, self.registered_name)
        return replace(graph, train=train, val=val, test=test)


def label_of(sign: np.ndarray) -> np.ndarray:
    """Class 0 for -1, class 1 for 1."""
    return (sign > 0).astype(np.int64)


def node_split(
    blocks: Blocks, graph_seed: int, name: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """GFL's masks of the nodes: 10 % to train, balanced and connected; 10 % to validate."""
    rng = stream(graph_seed, name, "split")
    nodes = len(blocks.sign)
    each = max(1, round(0.05 * nodes))
    train = grown_set(blocks, each, rng)
    rest = rng.permutation(np.setdiff1d(np.arange(nodes), train))
    val, test = np.split(rest, [2 * each])
    return node_mask(train, nodes), node_mask(val, nodes), node_mask(test, nodes)


def grown_set(blocks: Blocks, each: int, rng: np.random.Generator) -> np.ndarray:
    """Connected nodes, ``each`` of either class.

    The paper selects "nodes randomly until the subgraph induced by these nodes is connected and it
    has class balance". Twenty nodes drawn at random out of 200 are practically never connected, so
    the set grows: from a random node on, a random neighbour of the set whose class still lacks
    nodes is added, and a set that can't grow is dropped for another.
    """
    a, label = blocks.adjacency.tolil(), label_of(blocks.sign)
    for _ in range(_MOST_TRIES):
        missing = [each, each]
        chosen: list[int] = []
        candidates = {int(rng.integers(len(label)))}
        while candidates:
            node = int(rng.choice(sorted(candidates)))
            chosen.append(node)
            missing[label[node]] -= 1
            if not any(missing):
                return np.array(chosen)
            candidates = (candidates | set(a.rows[node])) - set(chosen)
            candidates = {c for c in candidates if missing[label[c]]}
    raise AtollError(
        f"no connected training set of {2 * each} nodes was found in {_MOST_TRIES} tries; raise "
        f"data.degree."
    )
