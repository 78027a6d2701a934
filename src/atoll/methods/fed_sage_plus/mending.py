"""Graphs with nodes hidden and graphs with neighbours added, as FedSage+ needs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from atoll.cohort import Cohort
from atoll.cohort.extended import Extended
from atoll.cohort.inputs import Neighbourhood
from atoll.cohort.whole import Whole
from atoll.device import of_numpy
from atoll.graph import Features, Graph, dense
from atoll.kernels import array, fit, kernels
from atoll.leaves import Ragged
from atoll.ops.ragged import ragged_linear
from atoll.ops.sparse import Sparse
from atoll.rng import CohortRng


class Hidden(NamedTuple):
    """One graph without some of its nodes, and what the others lost by it.

    ``neighbours [kept, hidden]`` is one where a kept node has lost a hidden one; ``x`` are the
    hidden nodes' features.
    """

    graph: Graph
    neighbours: sparse.csr_array
    x: Features


def hide(graph: Graph, share: float, stream: np.random.Generator) -> Hidden:
    """Hide a share of the nodes, chosen uniformly: at least one, and at least one stays."""
    count = min(max(1, round(share * graph.nodes)), graph.nodes - 1)
    hidden = np.sort(stream.choice(graph.nodes, size=count, replace=False))
    kept = np.setdiff1d(np.arange(graph.nodes), hidden)
    lost = graph.adjacency[kept][:, hidden]
    return Hidden(graph.subgraph(kept), sparse.csr_array(lost), graph.x[hidden])


@dataclass(frozen=True)
class Impaired:
    """K graphs with hidden nodes, packed.

    ``missing [N]`` counts the hidden neighbours of each node that is left, which are
    ``neighbour[start[v] : start[v] + missing[v]]``, rows of ``x [H, f]``. ``degree [N]`` counts
    the neighbours that are left, ``nodes [K]`` the nodes.
    """

    cohort: Cohort
    missing: Tensor
    start: Tensor
    neighbour: Tensor
    x: Tensor
    degree: Tensor
    nodes: Tensor

    def nearest(self, owner: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The hidden neighbour nearest to each generated row of the node ``owner [R]``.

        Its number among all hidden nodes and the squared distance ``[R]``. All these nodes have
        lost neighbours.
        """
        if fit(rows, self.x):
            at, distance = torch.empty_like(owner), rows.new_empty(len(owner))
            lost = self.missing, self.start, self.neighbour, self.x
            given = (array(t) for t in (rows, owner, *lost, at, distance))
            kernels("nearest").nearest_choice(*given)
            return at, distance
        choices = self.missing[owner]
        row = torch.repeat_interleave(torch.arange(len(owner)), choices)
        begin = choices.cumsum(0) - choices
        first = torch.repeat_interleave(self.start[owner] - begin, choices)
        candidate = self.neighbour[first + torch.arange(len(row))]
        distance = (rows[row] - self.x[candidate]).square().sum(1)
        best = of_numpy(np.lexsort((distance.cpu().numpy(), row.cpu().numpy())))[begin]
        return candidate[best], distance[best]


def impair(cohort: Cohort, share: float, rng: CohortRng) -> Impaired:
    """The cohort with a share of every client's nodes hidden; once per seed, then remembered."""

    def build() -> Impaired:
        coins = CohortRng(rng.seed, cohort.clients, 0, "hidden nodes")
        parts = [hide(g, share, s) for g, s in zip(cohort.graphs, coins.streams, strict=True)]
        return _packed(cohort, parts)

    return cohort.cached(f"a share {share} of nodes hidden by seed {rng.seed}", build)


def _packed(cohort: Cohort, parts: Sequence[Hidden]) -> Impaired:
    shift = np.cumsum([0] + [part.x.shape[0] for part in parts])
    missing = np.concatenate([np.diff(part.neighbours.indptr) for part in parts])
    neighbour = [part.neighbours.indices + s for part, s in zip(parts, shift, strict=False)]
    degree = np.concatenate([np.diff(part.graph.adjacency.indptr) for part in parts])
    return Impaired(
        cohort=cohort.with_graphs([part.graph for part in parts]),
        missing=of_numpy(missing.astype(np.int64)),
        start=of_numpy((np.cumsum(missing) - missing).astype(np.int64)),
        neighbour=of_numpy(np.concatenate(neighbour).astype(np.int64)),
        x=of_numpy(np.concatenate([dense(part.x) for part in parts])).to(cohort.dtype),
        degree=of_numpy(degree).to(cohort.dtype),
        nodes=torch.tensor([part.graph.nodes for part in parts], dtype=cohort.dtype),
    )


def mended(graph: Graph, counts: np.ndarray, rows: np.ndarray) -> Graph:
    """The graph with ``counts[v]`` new neighbours at each node v, whose features are ``rows``.

    They come after all other nodes, have no label and belong to no split: nothing is trained or
    scored on them. Their edges weigh as much as the graph's on average.
    """
    n, m = graph.nodes, len(rows)
    owner, new = np.repeat(np.arange(n), counts), np.arange(n, n + m)
    if sparse.issparse(graph.x):
        x: Features = sparse.csr_array(sparse.vstack([graph.x, sparse.csr_array(rows)]))
    else:
        x = np.concatenate([graph.x, rows])
    nobody = np.zeros(m, dtype=bool)
    weights = graph.weights
    if weights is not None:
        weights = np.concatenate([weights, np.full(2 * m, graph.mean_weight)])
    return replace(
        graph,
        x=x,
        edges=np.concatenate([graph.edges, [owner, new], [new, owner]], axis=1),
        weights=weights,
        y=np.concatenate([graph.y, np.full(m, -1, dtype=graph.y.dtype)]),
        train=np.concatenate([graph.train, nobody]),
        val=np.concatenate([graph.val, nobody]),
        test=np.concatenate([graph.test, nobody]),
        ids=np.concatenate([graph.ids.astype(str), [f"generated {i}" for i in range(m)]]),
        name=f"{graph.name}, mended",
        holdings=(),
    )


class Mended(Extended):
    """Mended graphs: after its own nodes, each client has its generated ones.

    Generated rows are dense: they are multiplied apart from sparse features.
    """

    def __init__(self, cohort: Cohort, counts: Ragged, rows: Ragged) -> None:
        super().__init__(cohort.inputs, rows.sizes)
        parts = zip(cohort.graphs, counts.blocks(), rows.blocks(), strict=True)
        self._graphs = Whole(
            [mended(g, c.cpu().numpy(), r.cpu().numpy()) for g, c, r in parts], self.dtype
        )
        self._generated = rows

    @property
    def graphs(self) -> Sequence[Graph]:
        return self._graphs.graphs

    def linear(self, weight_K: Tensor, propagated: str = "", hops: int = 1) -> Tensor:
        made = ragged_linear(self._generated.values, weight_K, self._generated.sizes)
        h = self.in_order(self.home.linear(weight_K), made)
        for _ in range(hops if propagated else 0):
            h = self.operator(propagated) @ h
        return h

    def operator(self, name: str) -> Sparse:
        return self._graphs.operator(name)

    def operator_at(self, name: str, rows: Tensor) -> Sparse:
        return self._graphs.operator_at(name, rows)

    def k_hop(self, reach: int, inside_K: Sequence[np.ndarray]) -> Neighbourhood | None:
        return self._graphs.k_hop(reach, inside_K)


def mend(cohort: Cohort, counts: Ragged, rows: Ragged) -> Cohort:
    """The cohort with generated neighbours; remembered until they change."""
    if not len(rows.values):
        return cohort

    def build() -> Cohort:
        return cohort.with_inputs(Mended(cohort, counts, rows))

    return cohort.latest("mended", (counts, rows), build)
