"""Mini-batches of nodes, for K clients whose graphs are too large to train on as a whole.

A step sees one batch per client, packed into one cohort. All that is drawn for a client comes from
its own stream, in the order of its own steps. Clients that are through with a pass wait for the
others: they are not ``active``, and what is drawn for them is drawn from nobody's stream. So a
client's steps do not depend on who else is in the cohort.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.cohort.sampled import Sampled, sample_of, training_nodes
from atoll.errors import AtollError
from atoll.graph import Graph
from atoll.models.base import Model
from atoll.partition.clusters import clusters_of
from atoll.rng import CohortRng
from atoll.tasks.base import Step

# Nodes per cluster where nobody says how many clusters: about as many as Cluster-GCN has.
USUAL_CLUSTER = 200
USUAL_FANOUT = 10
# Nodes whose scores are computed at once; a client with more is one block all the same. What is
# made of graphs for that is kept where all clients have no more nodes than a small federation's.
_BLOCK, _SMALL = 50_000, 10_000

_NONE = np.zeros(0, dtype=np.int64)
Build = Callable[[Sequence[np.ndarray], CohortRng], Cohort]


def neighbour_pass(
    cohort: Cohort, rng: CohortRng, batch: int, fanout: Sequence[int], exact: bool
) -> Iterator[Step]:
    """Steps that show every client each of its training nodes once, ``batch`` at a time, with a
    sampled neighbourhood (:class:`atoll.cohort.sampled.Sampled`)."""

    def build(targets_K: Sequence[np.ndarray], coins: CohortRng) -> Cohort:
        samples = [
            sample_of(graph, targets, fanout, stream)
            for graph, targets, stream in zip(cohort.graphs, targets_K, coins.streams, strict=True)
        ]
        known = [training_nodes(g, t) for g, t in zip(cohort.graphs, targets_K, strict=True)]
        inputs = Sampled(samples, cohort.dtype, exact)
        return Cohort(known, cohort.clients, cohort.dtype, inputs)

    return _one_pass([np.flatnonzero(g.train) for g in cohort.graphs], batch, rng, build)


def cluster_pass(cohort: Cohort, rng: CohortRng, batch: int, clusters: int) -> Iterator[Step]:
    """Steps that show every client each of its clusters once, ``batch`` at a time.

    As in Cluster-GCN (Chiang et al., 2019): clusters are METIS parts of the client's graph, made
    once; a batch is the graph induced on the union of some of them, edges between them included,
    and nothing else enters the step. Its propagation matrices are those of that smaller graph, with
    its own degrees, as the paper normalises anew after joining clusters. A cluster without a
    training node would teach nothing and is left out, unless one batch holds all clusters.
    """
    seed = int(rng.common("clusters").integers(2**31))
    divided_K = [_divided(graph, clusters, seed) for graph in cohort.graphs]

    def build(chosen_K: Sequence[np.ndarray], _: CohortRng) -> Cohort:
        return cohort.with_graphs(
            [
                _of_clusters(graph, members, chosen, batch)
                for graph, (_, members), chosen in zip(
                    cohort.graphs, divided_K, chosen_K, strict=True
                )
            ]
        )

    useful_K = [
        np.unique(owner[graph.train])
        for graph, (owner, _) in zip(cohort.graphs, divided_K, strict=True)
    ]
    return _one_pass(useful_K, batch, rng, build)


def _one_pass(
    things_K: Sequence[np.ndarray], batch: int, rng: CohortRng, build: Build
) -> Iterator[Step]:
    batches_K = [
        _batches(things, batch, stream)
        for things, stream in zip(things_K, rng.streams, strict=True)
    ]
    for step in range(max(map(len, batches_K))):
        active = [step < len(batches) for batches in batches_K]
        coins = rng.only(active)
        chosen_K = [
            batches[step] if takes else _NONE
            for batches, takes in zip(batches_K, active, strict=True)
        ]
        yield Step(build(chosen_K, coins), coins, torch.tensor(active))


def _batches(things: np.ndarray, batch: int, stream: np.random.Generator) -> list[np.ndarray]:
    """Some things in parts; in a new order each time, unless they are one part anyway."""
    if len(things) <= batch:
        return [things]
    return np.array_split(stream.permutation(things), range(batch, len(things), batch))


def _divided(graph: Graph, clusters: int, seed: int) -> tuple[np.ndarray, list[np.ndarray]]:
    return clusters_of(graph, _cluster_count(graph.nodes, clusters), seed)


def _cluster_count(nodes: int, clusters: int) -> int:
    return min(max(clusters or round(nodes / USUAL_CLUSTER), 1), nodes)


def _of_clusters(
    graph: Graph, members: Sequence[np.ndarray], chosen: np.ndarray, batch: int
) -> Graph:
    """The graph induced on some clusters; on no more than its first node, if there are none."""
    if not len(chosen):
        alone = graph.subgraph(np.zeros(1, dtype=np.int64))
        nothing = np.zeros(1, dtype=bool)
        return alone.relabelled(
            y=alone.y, train=nothing, val=nothing, test=nothing, name=graph.name
        )
    if batch >= len(members):
        return graph
    return graph.subgraph(np.sort(np.concatenate([members[c] for c in chosen])))


def settled_fanout(fanout: tuple[int, ...], model: Model) -> tuple[tuple[int, ...], bool]:
    """Neighbours per hop for a model, and whether its first layer's propagation is left exact."""
    hops, name = model.sampled_hops, model.registered_name
    if not hops:
        raise AtollError(
            f"the model '{name}' does not say how many hops away it looks, so that neighbours "
            f"can't be sampled for it; set task.sampler=cluster, or choose gcn, sage or gat."
        )
    if not fanout:
        return (USUAL_FANOUT,) * hops[0], True
    if len(fanout) not in hops:
        wanted = " or ".join(map(str, hops))
        raise AtollError(
            f"task.fanout has {len(fanout)} numbers, and the model '{name}' samples {wanted} hops; "
            f"give one number per hop, the nearest first."
        )
    return fanout, len(fanout) == hops[0]


def refuse_idle_options(batch: int, sampler: str, fanout: tuple[int, ...], clusters: int) -> None:
    """One sentence for options that would do nothing."""
    given = {"sampler": sampler != "neighbour", "fanout": fanout != (), "clusters": clusters != 0}
    idle = [name for name, is_given in given.items() if is_given]
    if not batch and idle:
        raise AtollError(
            f"task.{idle[0]} has a meaning only in mini-batches; set task.batch above 0."
        )
    if sampler == "cluster" and fanout:
        raise AtollError(
            "task.fanout has a meaning only where neighbours are sampled; leave it out, or set "
            "task.sampler=neighbour."
        )
    if sampler == "neighbour" and clusters:
        raise AtollError("task.clusters has a meaning only with task.sampler=cluster; set that.")


def undivided(
    batch: int, sampler: str, clusters: int, sizes: Sequence[tuple[int, int]]
) -> list[str]:
    """A remark where every batch held all that a client has; ``sizes`` are nodes and training nodes
    of each client."""
    if not batch or not sizes:
        return []
    if sampler == "neighbour":
        what, most = "training nodes", max(train for _, train in sizes)
    else:
        what, most = "clusters", max(_cluster_count(nodes, clusters) for nodes, _ in sizes)
    if batch < most:
        return []
    return [
        f"task.batch is {batch}, and no client has more than {most} {what}, so that every step saw "
        f"all of them; choose a smaller one, or 0 for full batches."
    ]


def in_blocks(model: Model, params_K: Mapping[str, Tensor], cohort: Cohort, rows: Tensor) -> Tensor:
    """Class scores of some nodes in evaluation ``[R] -> [R, classes]``, on whole graphs, a few
    clients at a time: neither what lies between the layers nor what is made of a graph for them is
    ever there for everybody."""
    one_model = len(next(iter(params_K.values()))) < cohort.k  # for one graph that all hold
    if one_model or sum(cohort.sizes) <= _SMALL:
        return model.predict(params_K, cohort, rows)
    found, shift = None, 0
    for positions in _blocks(cohort.sizes):
        size = sum(cohort.sizes[p] for p in positions)
        inside = torch.nonzero((rows >= shift) & (rows < shift + size)).flatten()
        own = {name: p[positions[0] : positions[-1] + 1] for name, p in params_K.items()}
        part = cohort.take(positions)
        with _forgetting(part.graphs):
            scores = model.predict(own, part, rows[inside] - shift)
        if found is None:
            found = scores.new_empty((len(rows), scores.shape[1]))
        found[inside] = scores
        shift += size
    assert found is not None
    return found


@contextmanager
def _forgetting(graphs: Sequence[Graph]) -> Iterator[None]:
    """What is derived from graphs within it is not kept."""
    known = [{"undirected", *graph.derived} for graph in graphs]
    yield
    for graph, before in zip(graphs, known, strict=True):
        for key in set(graph.derived) - before:
            del graph.derived[key]


def _blocks(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Clients in order, as many at a time as have no more nodes than a block together."""
    block: list[int] = []
    for position, size in enumerate(sizes):
        if block and sum(sizes[p] for p in block) + size > _BLOCK:
            yield block
            block = []
        block.append(position)
    yield block
