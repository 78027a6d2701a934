"""What parties naturally hold of a larger graph, and where their own view of it differs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from atoll.graph.features import Features


@dataclass(frozen=True, eq=False)
class View:
    """What a party has of its ``m`` nodes where others that hold them too have something else.

    ``x [m, f]`` are the features as the party has them, ``known [m]`` says whose labels it knows
    and ``used [m]`` which nodes it trains, validates or tests on; ``weights`` are those of the
    holding's edges. None is as in the graph.
    """

    x: Features | None = None
    known: np.ndarray | None = None
    used: np.ndarray | None = None
    weights: np.ndarray | None = None

    def of(self, rows: np.ndarray, edges: np.ndarray | None) -> View:
        """The view of some of the nodes, and of some of the holding's edges if it lists any."""
        x, known, used = (
            None if part is None else part[rows] for part in (self.x, self.known, self.used)
        )
        weights = self.weights if edges is None or self.weights is None else self.weights[edges]
        return View(x, known, used, weights)


@dataclass(frozen=True, eq=False)
class Holding:
    """What one party naturally holds of a larger graph.

    ``nodes`` are node numbers of that graph; ``edges`` are column numbers of its ``edges``, or
    None for every edge between the nodes. Holdings may overlap. ``links`` name the holdings that
    this party has ties with, where the parties themselves form a network. ``space`` names what
    features and classes mean to this party, where that is its own.
    """

    name: str
    nodes: np.ndarray
    edges: np.ndarray | None = None
    links: tuple[str, ...] = ()
    view: View | None = None
    space: str = ""


def nodes_of(owner: np.ndarray, owners: int) -> list[np.ndarray]:
    """The nodes of each owner, ascending, where ``owner [n]`` counts the owners from 0."""
    order = np.argsort(owner, kind="stable")
    ends = np.cumsum(np.bincount(owner, minlength=owners))
    return np.split(order, ends[:-1])


def renumbered(
    holdings: tuple[Holding, ...], place: np.ndarray, columns: np.ndarray, edges: int
) -> tuple[Holding, ...]:
    """Holdings in the numbers of a subgraph; those without any node in it are dropped.

    ``place [n]`` is each node's number in the subgraph (-1 outside), ``columns`` are the edges it
    keeps of ``edges`` in all.
    """
    if not holdings:
        return ()
    edge_place = np.full(edges, -1, dtype=np.int64)
    edge_place[columns] = np.arange(len(columns))

    def kept(numbers: np.ndarray, place: np.ndarray) -> np.ndarray:
        places: np.ndarray = place[numbers]
        return places[places >= 0]

    inside = (
        replace(
            holding,
            nodes=kept(holding.nodes, place),
            edges=None if holding.edges is None else kept(holding.edges, edge_place),
            view=holding.view
            and holding.view.of(
                place[holding.nodes] >= 0,
                None if holding.edges is None else edge_place[holding.edges] >= 0,
            ),
        )
        for holding in holdings
    )
    return tuple(holding for holding in inside if len(holding.nodes))
