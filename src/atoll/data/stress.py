"""Worse data than there is: noise and gaps in features, edges and training labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy import sparse

from atoll.data.disturb import (
    with_added_edges,
    with_features_dropped,
    with_fewer_edges,
    with_labels_dropped,
    with_noisy_features,
    with_wrong_labels,
)
from atoll.errors import AtollError
from atoll.graph import Graph
from atoll.options import check_options, option
from atoll.rng import server_stream, stream

_SHARE = "it is a share"


@dataclass(frozen=True, kw_only=True)
class Stress:
    """How much worse each client's graph is made, once it is cut; 0 leaves it as it is.

    - ``edge_drop``: the share of its edges that a client lacks.
    - ``edge_add``: as many edges as this share of its own join nodes that are not linked; they
      weigh what its edges weigh on average.
    - ``feature_drop``: the share of its features that are not zero and become zero.
    - ``feature_noise``: noise of a normal distribution is added, its standard deviation so many
      times that of the feature over the client's nodes. Features become dense.
    - ``label_drop``: the share of its training labels that a client lacks; one is left.
    - ``label_noise``: the share of its training labels that are another class, drawn uniformly.

    Whole numbers of edges, features and labels are drawn at random, round to the nearest.
    ``clients`` is the share of the clients, at least one, to whom this happens, drawn at random.

    Validation and test labels are never touched. Features and edges are those of all nodes of a
    client: it has one graph, which it trains on and is scored on. Where links are predicted, links
    that are hidden for validation and test stay as they are, and none of them is added.

    Draws are keyed by (seed, client, what is done), so that a client's noise depends on no other
    client, no method and no other kind of stress. A pooled graph (``centralized``) is made worse
    at each rate times ``clients``.
    """

    edge_drop: float = option(0.0, at_least=0, at_most=1, why=_SHARE)
    edge_add: float = option(0.0, at_least=0, why="it is a share of the client's own edges")
    feature_drop: float = option(0.0, at_least=0, at_most=1, why=_SHARE)
    feature_noise: float = option(0.0, at_least=0)
    label_drop: float = option(0.0, at_least=0, at_most=1, why=_SHARE)
    label_noise: float = option(0.0, at_least=0, at_most=1, why=_SHARE)
    clients: float = option(1.0, above=0, at_most=1, why="it is a share of the clients")

    def __post_init__(self) -> None:
        check_options("stress", self)

    @property
    def rates(self) -> dict[str, float]:
        """What is done at all, in the order in which it is done."""
        return {name: rate for name in _STEPS if (rate := getattr(self, name)) > 0}

    def on(self, graphs: Sequence[Graph], seed: int) -> list[Graph]:
        """Each client's graph, made worse if its client is among those chosen."""
        hit = self.chosen(len(graphs), seed)
        self._refuse_without_edges(graphs)
        return [
            self.disturbed(graph, seed, client) if client in hit else graph
            for client, graph in enumerate(graphs)
        ]

    def pooled(self, graph: Graph, seed: int) -> Graph:
        """Everybody's graph in one, with as much done to it as to the clients' together."""
        self._refuse_without_edges([graph])
        milder: dict[str, Any] = {n: rate * self.clients for n, rate in self.rates.items()}
        return replace(self, **milder).disturbed(graph, seed, 0)

    def _refuse_without_edges(self, graphs: Sequence[Graph]) -> None:
        """Some client may have no edge; where nobody has, there is nothing to drop."""
        if self.edge_drop and graphs and not any(graph.edges.shape[1] for graph in graphs):
            raise AtollError(
                f"stress.edge_drop drops edges, and {graphs[0].name} and all others have none; "
                f"leave it out."
            )

    def chosen(self, clients: int, seed: int) -> set[int]:
        """The clients to whom it happens."""
        if not self.rates:
            return set()
        count = max(1, round(self.clients * clients))
        order = server_stream(seed, 0, "stress").permutation(clients)
        return set(order[:count].tolist())

    def disturbed(self, graph: Graph, seed: int, client: int) -> Graph:
        """One client's graph, made worse."""
        for name, rate in self.rates.items():
            refuse_meaningless(name, graph)
            graph = _STEPS[name](graph, rate, stream(seed, client, 0, f"stress {name}"))
        return graph


_Step = Callable[[Graph, float, np.random.Generator], Graph]
# Edges that are added are no edges that were dropped for being too many: first drop, then add.
# Features are made zero before noise, or noise would be all that is made zero.
_STEPS: Mapping[str, _Step] = {
    "edge_drop": with_fewer_edges,
    "edge_add": with_added_edges,
    "feature_drop": with_features_dropped,
    "feature_noise": with_noisy_features,
    "label_drop": with_labels_dropped,
    "label_noise": with_wrong_labels,
}
# What may be written in the section data: its own names, but for the one that would say too little.
IN_DATA = {**{name: name for name in _STEPS}, "stress_clients": "clients"}
# Dense noise for more numbers than these takes more than 0.8 GB.
_MOST_NUMBERS = 200_000_000


def refuse_meaningless(name: str, graph: Graph) -> None:
    """One sentence where a kind of stress can do nothing, or would do something else."""
    if name.startswith("label_") and graph.probes:
        raise AtollError(
            f"stress.{name} is for training labels, and where links are predicted there are none; "
            f"use edge_drop or edge_add."
        )
    if name == "label_noise" and graph.classes < 2:
        raise AtollError(
            f"stress.label_noise gives nodes another class, and {graph.name} has one only; leave "
            f"it out."
        )
    numbers = graph.nodes * graph.features
    if name == "feature_noise" and sparse.issparse(graph.x) and numbers > _MOST_NUMBERS:
        raise AtollError(
            f"stress.feature_noise would make the {numbers:,} features of {graph.name} dense; use "
            f"feature_drop, or more clients."
        )


def refuse_taken_names(dataset: Any) -> None:
    """A dataset's own option of such a name could not be set."""
    for spec in fields(dataset):
        if spec.name in IN_DATA:
            raise AtollError(
                f"the dataset {type(dataset).__name__} has an option '{spec.name}', a name that "
                f"stress has taken; rename it."
            )


def stress_apart(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Stress may be written in the section ``data``, as ``data.edge_drop``; here it is its own."""
    data = table.get("data")
    given = {k: v for k, v in data.items() if k in IN_DATA} if isinstance(data, Mapping) else {}
    if not given:
        return table
    left = {k: v for k, v in table["data"].items() if k not in IN_DATA}
    own = {IN_DATA[key]: value for key, value in given.items()}
    return {**table, "data": left, "stress": {**table.get("stress", {}), **own}}
