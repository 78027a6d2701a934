"""Communities with similar labels merged into one client: OpenFGL's Louvain+ and METIS+."""

from dataclasses import dataclass

import numpy as np

from atoll.errors import AtollError
from atoll.graph import Graph
from atoll.options import option
from atoll.partition.base import Partition, by_owner, partitions
from atoll.partition.louvain import louvain_communities
from atoll.partition.metis import metis_parts


@partitions.register("louvain-plus")
@dataclass(frozen=True, kw_only=True)
class LouvainPlus(Partition):
    """Louvain communities with similar labels merged, so that clients differ (OpenFGL's Louvain+).

    Li et al., 2024. Where ``louvain`` merges communities at random, these are clustered by their
    shares of classes with k-means, one cluster per client: structure and labels are both skewed,
    and sizes are what comes of it. ``resolution`` above 1 gives more and smaller communities.
    OpenFGL's code draws neither Louvain's nor k-means' randomness from a seed; here both follow
    from the partition's.
    """

    resolution: float = option(1.0, above=0)

    def _cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]:
        community, count = louvain_communities(graph, self.clients, self.resolution, rng)
        client = alike(graph, community, count, self.clients, rng)
        return by_owner(graph, client[community], self.clients)


@partitions.register("metis-plus")
@dataclass(frozen=True, kw_only=True)
class MetisPlus(Partition):
    """Small METIS parts with similar labels merged, so that clients differ (OpenFGL's Metis+).

    Li et al., 2024: the graph is cut into ``parts`` METIS parts (OpenFGL: 100), which are clustered
    by their shares of classes with k-means, one cluster per client.
    """

    parts: int = option(100, at_least=1)

    def _cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]:
        if self.parts < self.clients:
            raise AtollError(
                f"partition.parts is {self.parts}, fewer than {self.clients} clients; raise it."
            )
        if self.parts == 1:
            return [graph]
        part = metis_parts(graph, self.parts, rng)
        client = alike(graph, part, self.parts, self.clients, rng)
        return by_owner(graph, client[part], self.clients)


def alike(
    graph: Graph, community: np.ndarray, count: int, clients: int, rng: np.random.Generator
) -> np.ndarray:
    """The client of each community ``[count]``: k-means on their shares of classes.

    Communities without any label have equal shares of all.
    """
    from sklearn.cluster import KMeans

    known = graph.y >= 0
    cells = community[known] * graph.classes + graph.y[known]
    labels = np.bincount(cells, minlength=count * graph.classes).reshape(count, graph.classes)
    total = labels.sum(axis=1, keepdims=True)
    shares = np.where(total > 0, labels / np.maximum(total, 1), 1 / max(graph.classes, 1))
    different = len(np.unique(shares, axis=0))
    if different < clients:
        raise AtollError(
            f"{count} communities of {graph.name} have {different} different mixtures of classes, "
            f"fewer than {clients} clients; ask for fewer clients, or for more communities."
        )
    method = KMeans(clients, n_init=10, random_state=int(rng.integers(2**31)))
    return np.asarray(method.fit_predict(shares), dtype=np.int64)
