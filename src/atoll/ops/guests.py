"""Graphs expanded by guests: other clients' nodes, known by an embedding only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from atoll.cohort import Cohort
from atoll.graph import Features, Graph, make_graph
from atoll.models.base import Model
from atoll.tree import Params, Ragged

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
    reaches its host by whatever the model propagates from then on.

    ``hosts`` are row numbers within each client.
    """

    def __init__(self, home: Cohort, hosts: Ragged, embedding: Ragged, columns: Layout) -> None:
        graphs = [
            _expanded(graph, host.numpy())
            for graph, host in zip(home.graphs, hosts.blocks(), strict=True)
        ]
        super().__init__(graphs, home.clients, home.dtype)
        self.home = home
        parts = torch.split(embedding.values, list(columns.values()), dim=1)
        self._guests = dict(zip(columns, parts, strict=True))
        # Own rows come first in the list of all products, guests' rows after them.
        own = torch.split(torch.arange(sum(home.sizes)), list(home.sizes))
        guests = torch.split(torch.arange(len(hosts.values)) + sum(home.sizes), list(hosts.sizes))
        self._order = torch.cat([rows for k in zip(own, guests, strict=True) for rows in k])

    def linear(self, weight_K: Tensor, propagated: str = "", hops: int = 1) -> Tensor:
        own = self.home.linear(weight_K, propagated, hops)
        guests = self._guests[product_name(propagated, hops)].to(own.dtype)
        return torch.cat([own, guests]).index_select(0, self._order)


def product_name(propagated: str, hops: int) -> str:
    return f"{propagated}^{hops}" if propagated else "x"


def _expanded(graph: Graph, hosts: np.ndarray) -> Graph:
    """The graph with one more node for each host, joined to it."""
    guests = np.arange(graph.nodes, graph.nodes + len(hosts))
    nobody = np.zeros(len(hosts), dtype=bool)
    return replace(
        graph,
        x=_padded(graph.x, len(hosts)),
        edges=np.concatenate([graph.edges, [hosts, guests], [guests, hosts]], axis=1),
        y=np.concatenate([graph.y, np.full(len(hosts), -1)]),
        train=np.concatenate([graph.train, nobody]),
        val=np.concatenate([graph.val, nobody]),
        test=np.concatenate([graph.test, nobody]),
        ids=np.concatenate([graph.ids, np.full(len(hosts), graph.ids[0])]),
        holdings=(),
    )


def _padded(x: Features, rows: int) -> Features:
    """Features with rows of zeros below."""
    if isinstance(x, np.ndarray):
        return np.concatenate([x, np.zeros((rows, x.shape[1]), dtype=x.dtype)])
    ends = np.concatenate([x.indptr, np.full(rows, x.indptr[-1], dtype=x.indptr.dtype)])
    return sparse.csr_array((x.data, x.indices, ends), shape=(x.shape[0] + rows, x.shape[1]))
