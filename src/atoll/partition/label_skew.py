"""Classes dealt out unevenly, by Dirichlet's distribution."""

from dataclasses import dataclass

import numpy as np

from atoll.errors import AtollError
from atoll.graph import Graph
from atoll.options import option
from atoll.partition.base import Partition, by_owner, partitions


@partitions.register("label-skew")
@dataclass(frozen=True, kw_only=True)
class LabelSkew(Partition):
    """Each class is dealt out in shares drawn from a Dirichlet distribution; most edges are lost.

    Of every class, client k gets a share ``p_k``, p drawn from ``Dirichlet(alpha, ..., alpha)``
    (Yurochkin et al., 2019; Hsu et al., 2019). A small ``alpha`` gives each class to few clients, a
    large one gives everybody the same. Nodes without a label are dealt out uniformly.

    Sizes follow from the draw. With ``balanced``, as in Li et al. (2022) and OpenFGL, a client that
    holds its equal share of all nodes gets nothing of the classes that are left; where all hold
    theirs, which rounding makes possible and at which OpenFGL's code divides by zero, everybody
    gets of them. A cut that leaves a client below ``smallest`` nodes, or without any that trains
    while there are some, is drawn again, ``draws`` times at most.
    """

    alpha: float = option(0.5, above=0)
    smallest: int = option(5, at_least=1)
    balanced: bool = True
    draws: int = option(100, at_least=1)

    def _cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]:
        for _ in range(self.draws):
            owner = self._drawn(graph, rng)
            if self._serves_all(graph, owner):
                return by_owner(graph, owner, self.clients)
        raise AtollError(
            f"{self.draws} draws of {graph.name} left a client with fewer than {self.smallest} "
            f"nodes or none that trains; raise partition.alpha above {self.alpha:g}, or ask for "
            f"fewer clients."
        )

    def _drawn(self, graph: Graph, rng: np.random.Generator) -> np.ndarray:
        owner = np.empty(graph.nodes, dtype=np.int64)
        held = np.zeros(self.clients, dtype=np.int64)
        for label in range(-1, graph.classes):
            nodes = rng.permutation(np.flatnonzero(graph.y == label))
            counts = self._counts(len(nodes), label, held, graph.nodes, rng)
            owner[nodes] = np.repeat(np.arange(self.clients), counts)
            held += counts
        return owner

    def _counts(
        self, nodes: int, label: int, held: np.ndarray, total: int, rng: np.random.Generator
    ) -> np.ndarray:
        """How many of a class's nodes each client gets ``[K]``."""
        share = np.full(self.clients, 1.0)
        if label >= 0:
            share = rng.dirichlet(share * self.alpha)
            room = held < total / self.clients
            if self.balanced and (share * room).sum() > 0:
                share = share * room
        # Shares so small that all of them are rounded to zero would give nobody anything.
        share = share / share.sum() if share.sum() > 0 else np.full(self.clients, 1 / self.clients)
        ends = np.rint(np.cumsum(share) * nodes).astype(np.int64)
        ends[-1] = nodes
        return np.diff(ends, prepend=0)

    def _serves_all(self, graph: Graph, owner: np.ndarray) -> bool:
        sizes = np.bincount(owner, minlength=self.clients)
        trained = np.bincount(owner[graph.train], minlength=self.clients)
        return bool((sizes >= self.smallest).all()) and not (
            graph.train.any() and (trained == 0).any()
        )
