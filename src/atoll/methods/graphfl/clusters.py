"""Mini-batches of node clusters, for graphs too large to train on as a whole."""

from __future__ import annotations

import numpy as np

from atoll.cohort import Cohort
from atoll.partition.clusters import clusters_of
from atoll.rng import CohortRng


def cluster_batch(cohort: Cohort, clusters: int, batch: int, rng: CohortRng) -> Cohort:
    """A batch of each client's nodes: ``batch`` of its ``clusters`` clusters, drawn at random.

    As in Cluster-GCN (Chiang et al., 2019): clusters are METIS parts of the client's graph; a batch
    is the graph induced on the union of some of them, edges between them included, and nothing else
    enters the step. A cluster without a training node would teach nothing, so batches are drawn
    from the other ones.
    """
    seed = int(rng.common("clusters").integers(2**31))
    parts = []
    for graph, stream in zip(cohort.graphs, rng.streams, strict=True):
        owner, members = clusters_of(graph, clusters, seed)
        useful = np.unique(owner[graph.train]) if graph.train.any() else np.unique(owner)
        drawn = stream.choice(useful, size=min(batch, len(useful)), replace=False)
        parts.append(graph.subgraph(np.sort(np.concatenate([members[c] for c in drawn]))))
    return cohort.with_graphs(parts)
