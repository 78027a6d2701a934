"""Graphs extended by halo nodes: other clients' nodes, known by an embedding only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from atoll.cohort import Cohort
from atoll.cohort.extended import Extended
from atoll.cohort.inputs import Inputs, Neighbourhood, Operator
from atoll.device import kept_per_device, of_numpy
from atoll.graph import Graph, make_graph
from atoll.leaves import Ragged
from atoll.models.base import Model
from atoll.ops.propagation import k_hop_nodes
from atoll.ops.sparse import Sparse, gcn_operator, mean_operator
from atoll.tree import Params

# The products with features that a model begins with, by operator and hops, and their widths.
Layout = dict[str, int]
Matrix = Callable[[str], sparse.csr_array]


def first_products(model: Model, params_K: Mapping[str, Tensor], cohort: Cohort) -> Params:
    """What each model makes of its clients' features before anything else, ``[N, width]`` each.

    For ``gcn`` that is ``P X W1``, one product; ``sage`` has two.
    """
    recording = _Recording(cohort.inputs)
    with torch.no_grad():
        model.apply(params_K, cohort.with_inputs(recording))
    return recording.products


@kept_per_device(maxsize=8)
def layout(model: Model, features: int, classes: int) -> Layout:
    """The names and widths of a model's first products, found on a graph of one node."""
    x, no_edges = np.zeros((1, features), dtype=np.float32), np.zeros((2, 0), dtype=np.int64)
    node = make_graph(x, no_edges, np.zeros(1, dtype=np.int64), classes=classes)
    params = model.init(features, classes, np.random.default_rng(0))
    params_K = {name: p[None] for name, p in params.items()}
    products = first_products(model, params_K, Cohort([node], dtype=torch.float64))
    return {name: product.shape[1] for name, product in products.items()}


class _Recording(Inputs):
    """Inputs that remember the products with features."""

    def __init__(self, inputs: Inputs) -> None:
        super().__init__(inputs.sizes, inputs.dtype)
        self._inputs = inputs
        self.products: Params = {}

    @property
    def graphs(self) -> Sequence[Graph]:
        return self._inputs.graphs

    def linear(self, weight_K: Tensor, propagated: str = "", hops: int = 1) -> Tensor:
        product = self._inputs.linear(weight_K, propagated, hops)
        # A copy: models go on to change the product in place.
        self.products[product_name(propagated, hops)] = product.detach().clone()
        return product

    def operator(self, name: str) -> Operator:
        return self._inputs.operator(name)


class Halo(Extended):
    """K graphs and their halo nodes: after its own nodes, each client has a row per halo node.

    A halo node is joined to one node, its host, has neither features nor label, and enters where
    the model has multiplied features by its first weights: there its row is the embedding that
    came with it (``[halo nodes, sum of widths]``, the columns in the layout's order), as a
    constant. So it reaches its host by whatever the model propagates from then on.

    ``hosts`` are row numbers within each client. ``matrix`` gives operators by name where they are
    not those of these edges.
    """

    def __init__(
        self,
        home: Inputs,
        hosts: Ragged,
        embedding: Ragged,
        columns: Layout,
        matrix: Matrix | None = None,
    ) -> None:
        super().__init__(home, hosts.sizes)
        self._hosts, self._embedding, self._columns = hosts, embedding, columns
        self._given = matrix
        parts = torch.split(embedding.values, list(columns.values()), dim=1)
        self._products = dict(zip(columns, parts, strict=True))

    @property
    def graphs(self) -> Sequence[Graph]:
        raise TypeError("halo nodes have no features, so there is no graph of them")

    def linear(self, weight_K: Tensor, propagated: str = "", hops: int = 1) -> Tensor:
        own = self.home.linear(weight_K, propagated, hops)
        return self.in_order(own, self._products[product_name(propagated, hops)].to(own.dtype))

    @cached_property
    def edges(self) -> Tensor:
        """The clients' own edges, and those between halo nodes and hosts in both directions."""
        hosts = [h.cpu().numpy() for h in self._hosts.blocks()]
        halo = [np.arange(n, n + len(h)) for n, h in zip(self.home.sizes, hosts, strict=True)]
        host, node = self.rows_of(hosts), self.rows_of(halo)
        own = self.rows_of([g.edges for g in self.home.graphs])
        return torch.cat([own, torch.stack([host, node]), torch.stack([node, host])], dim=1)

    def operator(self, name: str) -> Sparse:
        def build() -> Sparse:
            symmetric = name == "gcn" and all(g.symmetric for g in self.home.graphs)
            return Sparse(self._matrix(name), self.dtype, symmetric)

        return self.cached(name, build)

    def operator_at(self, name: str, rows: Tensor) -> Sparse:
        return self.operator(name).at(rows)

    def _matrix(self, name: str) -> sparse.csr_array:
        """What :meth:`operator` keeps, for all clients at once."""

        def build() -> sparse.csr_array:
            if self._given is not None:
                return self._given(name)
            source, target = self.edges.cpu().numpy()
            n = sum(self.sizes)
            weights = self._weights()
            adjacency = sparse.csr_array((weights, (target, source)), shape=(n, n))
            adjacency.sum_duplicates()
            if all(g.weights is None for g in self.home.graphs):
                adjacency.data[:] = 1.0
            return {"gcn": gcn_operator, "mean": mean_operator}[name](adjacency)

        return self.cached(f"{name} as a matrix", build)

    def _weights(self) -> np.ndarray:
        """Of all :attr:`edges`; a halo node's weighs as much as its client's on average."""
        graphs = self.home.graphs
        own = [np.ones(g.edges.shape[1]) if g.weights is None else g.weights for g in graphs]
        halo = np.repeat([g.mean_weight for g in graphs], self._hosts.sizes)
        return np.concatenate([*own, halo, halo])

    def k_hop(self, reach: int, inside_K: Sequence[np.ndarray]) -> Neighbourhood | None:
        """Own nodes as ``home`` has them, and the halo nodes that are no further away."""
        inside_K = [inside[:n] for inside, n in zip(inside_K, self.home.sizes, strict=True)]
        everything = Neighbourhood(self.home, [np.arange(n) for n in self.home.sizes])
        home, own_K = self.home.k_hop(reach, inside_K) or everything
        if reach == 0:
            return Neighbourhood(home, own_K)
        # A halo node is one hop further away than its host.
        pairs = zip(self.home.graphs, inside_K, strict=True)
        within_K = [k_hop_nodes(graph, reach - 1, inside) for graph, inside in pairs]
        hosts_K = [hosts.cpu().numpy() for hosts in self._hosts.blocks()]
        kept_K = [np.isin(*pair) for pair in zip(hosts_K, within_K, strict=True)]
        hosts = [
            np.searchsorted(own, host[kept])
            for own, host, kept in zip(own_K, hosts_K, kept_K, strict=True)
        ]
        rows_K = [
            np.concatenate([own, n + np.flatnonzero(kept)])
            for n, own, kept in zip(self.home.sizes, own_K, kept_K, strict=True)
        ]
        sizes, rows = tuple(map(len, hosts)), self.rows_of(rows_K).cpu().numpy()
        part = Halo(
            home,
            Ragged(of_numpy(np.concatenate(hosts)), sizes),
            Ragged(self._embedding.values[of_numpy(np.concatenate(kept_K))], sizes),
            self._columns,
            lambda name: self._matrix(name)[rows][:, rows],
        )
        return Neighbourhood(part, rows_K)


def with_halo(home: Cohort, hosts: Ragged, embedding: Ragged, columns: Layout) -> Cohort:
    """The cohort with its halo nodes; the last ones are kept, since they stay for some rounds."""
    if not len(hosts.values):
        return home

    def extend() -> Cohort:
        return home.with_inputs(Halo(home.inputs, hosts, embedding, columns))

    key = f"with a halo of {columns}"
    return home.latest(key, (hosts, embedding), extend)


def product_name(propagated: str, hops: int) -> str:
    return f"{propagated}^{hops}" if propagated else "x"
