"""The network among clients, which some methods' servers know."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from atoll.graph import Graph


def client_network(graph: Graph, parties: Sequence[Graph]) -> sparse.csr_array:
    """Links between clients ``[K, K]``, in the order of the parties, zero on the diagonal.

    Entry (i, j) counts the edges of the whole graph from an entity of client j to an entity of
    client i. With one node per client that is the adjacency matrix; with disjoint parties it counts
    the edges that the cut has lost.

    Where the data names its own links between owners (:attr:`~atoll.graph.Holding.links`), the
    count is of those instead, each owner standing for the parties that hold its nodes.
    """
    held = _membership([entity_rows(graph, party) for party in parties], graph.nodes)
    if any(holding.links for holding in graph.holdings):
        owned = _membership([holding.nodes for holding in graph.holdings], graph.nodes)
        of_owner = (held @ owned.T > 0).astype(np.float64)
        network = of_owner @ _links(graph) @ of_owner.T
    else:
        network = held @ graph.adjacency @ held.T
    network = sparse.csr_array(network)
    network.setdiag(0)
    network.eliminate_zeros()
    return network


def entity_rows(graph: Graph, party: Graph) -> np.ndarray:
    """The whole graph's numbers of a party's entities."""
    order = graph.cached("order of ids", lambda: np.argsort(graph.ids, kind="stable"))
    return order[np.searchsorted(graph.ids, party.ids, sorter=order)]


def _membership(nodes_K: Sequence[np.ndarray], nodes: int) -> sparse.csr_array:
    ends = np.cumsum([0, *map(len, nodes_K)])
    return sparse.csr_array(
        (np.ones(ends[-1]), np.concatenate(nodes_K), ends), shape=(len(nodes_K), nodes)
    )


def _links(graph: Graph) -> sparse.csr_array:
    number = {holding.name: k for k, holding in enumerate(graph.holdings)}
    pairs = [
        (number[name], k)
        for k, holding in enumerate(graph.holdings)
        for name in holding.links
        if name in number
    ]
    rows, columns = np.array(pairs).reshape(-1, 2).T
    return sparse.csr_array((np.ones(len(pairs)), (rows, columns)), shape=(len(number),) * 2)
