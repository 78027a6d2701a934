"""Overlapping samples of METIS parts."""

from dataclasses import dataclass

import numpy as np

from atoll.errors import AtollError
from atoll.graph import Graph, nodes_of
from atoll.options import option
from atoll.partition.base import Partition, by_nodes, partitions
from atoll.partition.metis import metis_parts


@partitions.register("metis-overlap")
@dataclass(frozen=True, kw_only=True)
class MetisOverlap(Partition):
    """Five random halves of each METIS part: clients of one part overlap (FED-PUB).

    Baek et al., 2023, Appendix B.1: for 10, 30 or 50 clients METIS cuts the graph into 2, 6 or 10
    parts; from each part half of the nodes are sampled five times, and each sample with the edges
    inside it is a client. So ``clients / samples`` parts, and ``share`` of a part (rounded down)
    for each client. Clients ``samples * p`` to ``samples * (p + 1) - 1`` come from part p.

    The samples of a part are drawn independently, as the paper says: about one node in 32 (with
    the defaults) is in none of them. "Associated edges" is read as the edges with both ends in
    the sample: the paper's Table 4 counts 1,249 directed edges for a client of Cora, about a
    quarter of the edges of a part, which is what both ends in a random half leaves.
    """

    samples: int = option(5, at_least=1)
    share: float = option(0.5, above=0, at_most=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clients % self.samples:
            raise AtollError(
                f"partition.clients is {self.clients}, no multiple of partition.samples "
                f"({self.samples}); each METIS part gives that many clients."
            )

    def _cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]:
        parts = self.clients // self.samples
        sampled = []
        for p, part in enumerate(nodes_of(metis_parts(graph, parts, rng), parts)):
            size = int(len(part) * self.share)
            if size == 0:
                raise AtollError(
                    f"METIS part {p} of {graph.name} has {len(part)} nodes, too few to sample a "
                    f"share of {self.share:g}; ask for fewer clients or a larger partition.share."
                )
            for _ in range(self.samples):
                sampled.append(np.sort(rng.choice(part, size=size, replace=False)))
        return by_nodes(graph, sampled)
