"""Graphs expanded by guests: other clients' nodes, known by an embedding only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from atoll.cohort import Cohort
from atoll.graph import Graph, make_graph
from atoll.leaves import Ragged
from atoll.models.base import Model
from atoll.ops.propagation import ball
from atoll.ops.sparse import Sparse, gcn_operator, mean_operator
from atoll.tree import Params

# The products with features that a model begins with, by operator and hops, and their widths.
Layout = dict[str, int]


def first_products(model: Model, params_K: Mapping[str, Tensor], cohort: Cohort) -> Params:
    """What each model makes of its clients' features before anything else, ``[N, width]`` each.

    For ``gcn`` that is ``P X W1``, one product; ``sage`` has two.
    """
    listening = _Listening(cohort)
    with torch.no_grad():
        model.apply(params_K, listening)
    return listening.heard


@lru_cache(maxsize=8)
def layout(model: Model, features: int, classes: int) -> Layout:
    """The names and widths of a model's first products, found on a graph of one node."""
    x, no_edges = np.zeros((1, features), dtype=np.float32), np.zeros((2, 0), dtype=np.int64)
    node = make_graph(x, no_edges, np.zeros(1, dtype=np.int64), classes=classes)
    params = model.init(features, classes, np.random.default_rng(0))
    params_K = {name: p[None] for name, p in params.items()}
    heard = first_products(model, params_K, Cohort([node], dtype=torch.float64))
    return {name: product.shape[1] for name, product in heard.items()}


class _Listening(Cohort):
    """A cohort that remembers its products with features."""

    def __init__(self, cohort: Cohort) -> None:
        super().__init__(cohort.graphs, cohort.clients, cohort.dtype)
        self._packed = cohort._packed
        self.heard: Params = {}

    def linear(self, weight_K: Tensor, propagated: str = "", hops: int = 1) -> Tensor:
        product = super().linear(weight_K, propagated, hops)
        # A copy: models go on to change the product in place.
        self.heard[product_name(propagated, hops)] = product.detach().clone()
        return product


class WithGuests(Cohort):
    """K graphs and their guests: after its own nodes, each client has a row for each guest.

    A guest is joined to one node, its host, has neither features nor label, and enters where the
    model has multiplied features by its first weights: there its row is the embedding that came
    with it (``[guests, sum of widths]``, the columns in the layout's order), as a constant. So it
    reaches its host by whatever the model propagates from then on. A task sees the clients' own
    nodes only: ``graphs`` are what they were.

    ``hosts`` are row numbers within each client.
    """

    def __init__(self, home: Cohort, hosts: Ragged, embedding: Ragged, columns: Layout) -> None:
        super().__init__(home.graphs, home.clients, home.dtype)
        self.home = home
        self.hosts, self.embedding, self.columns = hosts, embedding, columns
        self.sizes = tuple(n + g for n, g in zip(home.sizes, hosts.sizes, strict=True))
        parts = torch.split(embedding.values, list(columns.values()), dim=1)
        self._guests = dict(zip(columns, parts, strict=True))
        # Own rows come first in the list of all products, guests' rows after them.
        own = torch.split(torch.arange(sum(home.sizes)), list(home.sizes))
        guests = torch.split(torch.arange(len(hosts.values)) + sum(home.sizes), list(hosts.sizes))
        self._order = torch.cat([rows for k in zip(own, guests, strict=True) for rows in k])

    def has(self, hosts: Ragged, embedding: Ragged, columns: Layout) -> bool:
        """Whether its guests are these, entry by entry."""
        pairs = (self.hosts, hosts), (self.embedding, embedding)
        return self.columns == columns and all(
            own.sizes == other.sizes and torch.equal(own.values, other.values)
            for own, other in pairs
        )

    def near(self, reach: int | None, *splits: str) -> Cohort:
        """Own nodes as home has them, and the guests that are no further away."""
        if reach is None:
            return self
        if reach == 0:
            return self.home.near(0, *splits)
        return self.cached(f"{reach} hops of {splits}", lambda: _NearGuests(self, reach, splits))

    def linear(self, weight_K: Tensor, propagated: str = "", hops: int = 1) -> Tensor:
        own = self.home.linear(weight_K, propagated, hops)
        guests = self._guests[product_name(propagated, hops)].to(own.dtype)
        return torch.cat([own, guests]).index_select(0, self._order)

    @cached_property
    def edges(self) -> Tensor:
        """The clients' own edges, and those between guests and hosts in both directions."""
        hosts = [h.numpy() for h in self.hosts.blocks()]
        guests = [
            np.arange(g.nodes, g.nodes + len(h)) for g, h in zip(self.graphs, hosts, strict=True)
        ]
        host, guest = self._rows_of(hosts), self._rows_of(guests)
        own = self._rows_of([g.edges for g in self.graphs])
        return torch.cat([own, torch.stack([host, guest]), torch.stack([guest, host])], dim=1)

    def operator(self, name: str) -> Sparse:
        if name not in self._packed:
            symmetric = name == "gcn" and all(g.undirected for g in self.graphs)
            self._packed[name] = Sparse(self._matrix(name), self.dtype, symmetric)
        return super().operator(name)

    def _matrix(self, name: str) -> sparse.csr_array:
        """What :meth:`operator` keeps, for all clients at once."""

        def build() -> sparse.csr_array:
            source, target = self.edges.numpy()
            ones, n = np.ones(len(source)), sum(self.sizes)
            adjacency = sparse.csr_array((ones, (target, source)), shape=(n, n))
            adjacency.sum_duplicates()
            adjacency.data[:] = 1.0
            return {"gcn": gcn_operator, "mean": mean_operator}[name](adjacency)

        return self.cached(f"{name} as a matrix", build)

    def _nodes(self, read: Callable[[Graph], np.ndarray]) -> Tensor:
        """Guests have no label (-1) and are in no split."""
        parts = []
        for graph, guests in zip(self.graphs, self.hosts.sizes, strict=True):
            own = read(graph)
            nothing = False if own.dtype == bool else -1
            parts += [own, np.full(guests, nothing, dtype=own.dtype)]
        return torch.from_numpy(np.concatenate(parts))


class _NearGuests(WithGuests):
    """The guests and own nodes within some hops of splits, with the operators of the whole."""

    def __init__(self, whole: WithGuests, reach: int, splits: tuple[str, ...]) -> None:
        own_K = [ball(g, reach, splits) for g in whole.graphs]
        # A guest is one hop further away than its host.
        near_K = [ball(g, reach - 1, splits) for g in whole.graphs]
        hosts_K = [hosts.numpy() for hosts in whole.hosts.blocks()]
        kept_K = [np.isin(*pair) for pair in zip(hosts_K, near_K, strict=True)]
        hosts = [
            np.searchsorted(own, host[kept])
            for own, host, kept in zip(own_K, hosts_K, kept_K, strict=True)
        ]
        sizes = tuple(map(len, hosts))
        super().__init__(
            whole.home.near(reach, *splits),
            Ragged(torch.from_numpy(np.concatenate(hosts)), sizes),
            Ragged(whole.embedding.values[torch.from_numpy(np.concatenate(kept_K))], sizes),
            whole.columns,
        )
        self._whole = whole
        self._rows_of_whole = whole._rows_of(
            [
                np.concatenate([own, graph.nodes + np.flatnonzero(kept)])
                for graph, own, kept in zip(whole.graphs, own_K, kept_K, strict=True)
            ]
        ).numpy()

    def _matrix(self, name: str) -> sparse.csr_array:
        rows = self._rows_of_whole
        return self._whole._matrix(name)[rows][:, rows]


@dataclass
class _Last:
    """How a cohort was last expanded."""

    cohort: WithGuests | None = None


def expanded(home: Cohort, hosts: Ragged, embedding: Ragged, columns: Layout) -> Cohort:
    """The cohort with its guests; the last ones are kept, since they stay for some rounds."""
    if not len(hosts.values):
        return home
    last = home.cached("with guests", _Last)
    if last.cohort is None or not last.cohort.has(hosts, embedding, columns):
        last.cohort = WithGuests(home, hosts, embedding, columns)
    return last.cohort


def product_name(propagated: str, hops: int) -> str:
    return f"{propagated}^{hops}" if propagated else "x"
