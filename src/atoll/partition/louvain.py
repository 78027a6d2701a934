"""Communities by the Louvain method, merged at random."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from atoll.errors import AtollError
from atoll.graph import Graph
from atoll.options import option
from atoll.partition.base import Partition, by_owner, partitions


@partitions.register("louvain")
@dataclass(frozen=True, kw_only=True)
class Louvain(Partition):
    """Louvain communities merged at random into the clients, disjoint (FedSage).

    Zhang et al., 2021, as FED-PUB's Appendix C.2 describes it: Louvain (Blondel et al., 2008) does
    not take a number of communities, so the many it finds are merged at random, whatever
    their properties, until there are as many as clients.

    Ambiguity: "randomly merge" is read as dealing the shuffled communities out in turn, so that
    clients get equal numbers of communities (give or take one) and nobody is left without.
    ``resolution`` above 1 gives more and smaller communities.
    """

    resolution: float = option(1.0, above=0)

    def _cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]:
        community, count = louvain_communities(graph, self.clients, self.resolution, rng)
        client = rng.permutation(np.arange(count) % self.clients)
        return by_owner(graph, client[community], self.clients)


def louvain_communities(
    graph: Graph, at_least: int, resolution: float, rng: np.random.Generator
) -> tuple[np.ndarray, int]:
    """The community of each node ``[n]``, the largest numbered 0, and how many there are.

    Newman's modularity on the undirected graph; nodes are visited in an order drawn from ``rng``.
    """
    from sknetwork.clustering import Louvain as Method

    if graph.edges.shape[1] == 0:
        raise AtollError(f"{graph.name} has no edges, so no communities; choose another partition.")
    symmetric = graph.adjacency if graph.undirected else graph.adjacency + graph.adjacency.T
    method = Method(
        resolution=resolution,
        modularity="newman",
        shuffle_nodes=True,
        random_state=int(rng.integers(2**31)),
        return_probs=False,
        return_aggregate=False,
    )
    found = method.fit_predict(sparse.csr_matrix(symmetric))
    size = np.bincount(found)
    if len(size) < at_least:
        raise AtollError(
            f"Louvain finds {len(size)} communities in {graph.name}, fewer than {at_least} "
            f"clients; ask for fewer, or raise partition.resolution above {resolution:g}."
        )
    number = np.empty(len(size), dtype=np.int64)
    number[np.argsort(-size, kind="stable")] = np.arange(len(size))
    return number[found], len(size)
