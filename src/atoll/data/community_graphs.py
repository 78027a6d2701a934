"""FED-PUB's synthetic graphs: communities of many small subgraphs."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, replace

import numpy as np

from atoll.data.base import Dataset, datasets
from atoll.errors import AtollError
from atoll.graph import Graph, Holding, make_graph
from atoll.options import option
from atoll.rng import stream


@dataclass(frozen=True, kw_only=True)
class CommunityGraphs(Dataset):
    """Communities that consist of subgraphs, each of them one client.

    ``subgraphs`` is the number of subgraphs of each community, ``size`` the number of nodes of each
    subgraph. Two nodes of one community are linked with probability ``inside``, in one subgraph or
    not; two nodes of different communities with ``between`` (Baek et al., 2023, Appendix B.3).
    Subgraphs are natural holdings: the ``natural`` partition makes each a client, with the edges
    inside it.

    The paper's communities have "different label distributions (e.g., nodes in the first community
    have label 0, whereas nodes in the last community have label 2)": the nodes of community c have
    label c here. That is easy, as each client then has one class; ``purity`` below 1 gives the
    other nodes any label at random. The paper does not say what the features are. Here a node has
    ``features`` normal numbers of variance 1 (those of the paper's other random graph) around its
    label's centre, itself drawn with standard deviation ``signal``; 0 leaves noise alone.
    """

    subgraphs: tuple[int, ...] = option(MISSING, at_least=1)
    inside: float = option(MISSING, at_least=0, at_most=1)
    between: float = option(MISSING, at_least=0, at_most=1)
    size: int = option(30, at_least=1)
    features: int = option(32, at_least=1)
    signal: float = option(1.0, at_least=0)
    purity: float = option(1.0, at_least=0, at_most=1)
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.subgraphs:
            raise AtollError(
                "data.subgraphs is empty; give the number of subgraphs for each community."
            )

    def load(self) -> Graph:
        rng = stream(self.seed, self.registered_name)
        community = np.repeat(np.arange(len(self.subgraphs)), np.array(self.subgraphs) * self.size)
        first, second = np.triu_indices(len(community), k=1)
        same = community[first] == community[second]
        linked = rng.random(len(first)) < np.where(same, self.inside, self.between)
        is_random = rng.random(len(community)) >= self.purity
        any_label = rng.integers(len(self.subgraphs), size=len(community))
        label = np.where(is_random, any_label, community)
        centre = self.signal * rng.normal(size=(len(self.subgraphs), self.features))
        x = centre[label] + rng.normal(size=(len(community), self.features))
        graph = make_graph(
            x.astype(np.float32),
            np.stack([first[linked], second[linked]]),
            label,
            classes=len(self.subgraphs),
            name=self.registered_name,
        )
        return replace(graph, holdings=self._holdings())

    def _holdings(self) -> tuple[Holding, ...]:
        nodes = np.arange(sum(self.subgraphs) * self.size).reshape(-1, self.size)
        names = [
            f"community {c} subgraph {s}"
            for c, count in enumerate(self.subgraphs)
            for s in range(count)
        ]
        return tuple(Holding(name, mine) for name, mine in zip(names, nodes, strict=True))


@datasets.register("fed-pub-figure-1")
@dataclass(frozen=True, kw_only=True)
class Figure1(CommunityGraphs):
    """FED-PUB's Figure 1: 3 communities of 5, 5 and 40 subgraphs of 30 nodes; 50 clients."""

    subgraphs: tuple[int, ...] = option((5, 5, 40), at_least=1)
    inside: float = option(0.5, at_least=0, at_most=1)
    between: float = option(0.1, at_least=0, at_most=1)


@datasets.register("fed-pub-figure-3")
@dataclass(frozen=True, kw_only=True)
class Figure3(CommunityGraphs):
    """FED-PUB's Figure 3: 2 communities of 5 and 15 subgraphs of 30 nodes; 20 clients."""

    subgraphs: tuple[int, ...] = option((5, 15), at_least=1)
    inside: float = option(0.7, at_least=0, at_most=1)
    between: float = option(0.01, at_least=0, at_most=1)
