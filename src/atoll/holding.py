"""What parties naturally hold of a larger graph, and how they see it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from atoll.graph import Graph

Features: TypeAlias = "np.ndarray | sparse.csr_array"


@dataclass(frozen=True, eq=False)
class View:
    """What a party sees of its ``m`` nodes where others that hold them too see something else.

    ``x [m, f]`` are the features as the party has them, ``known [m]`` says whose labels it knows
    and ``used [m]`` which nodes it trains, validates or tests on; None is as in the graph.
    """

    x: Features | None = None
    known: np.ndarray | None = None
    used: np.ndarray | None = None

    def of(self, party: Graph) -> Graph:
        """A party's graph as it sees it; splits of the whole reach it only where it allows."""
        allowed = np.ones(party.nodes, dtype=bool)
        for restriction in (self.known, self.used):
            allowed &= True if restriction is None else restriction
        return replace(
            party,
            x=party.x if self.x is None else self.x,
            y=party.y if self.known is None else np.where(self.known, party.y, -1),
            train=party.train & allowed,
            val=party.val & allowed,
            test=party.test & allowed,
        )

    def kept(self, rows: np.ndarray) -> View:
        """The view of some of the nodes."""
        parts = (self.x, self.known, self.used)
        return View(*(None if part is None else part[rows] for part in parts))


@dataclass(frozen=True, eq=False)
class Holding:
    """What one party naturally holds of a larger graph.

    ``nodes`` are node numbers of that graph; ``edges`` are column numbers of its ``edges``, or
    None for every edge between the nodes. Holdings may overlap. ``links`` name the holdings that
    this party has ties with, where the parties themselves form a network.
    """

    name: str
    nodes: np.ndarray
    edges: np.ndarray | None = None
    links: tuple[str, ...] = ()
    view: View | None = None


def shrunk(
    holdings: tuple[Holding, ...], place: np.ndarray, columns: np.ndarray, edges: int
) -> tuple[Holding, ...]:
    """Holdings in the numbers of a subgraph that keeps some columns; empty ones are gone."""
    if not holdings:
        return ()
    edge_place = np.full(edges, -1, dtype=np.int64)
    edge_place[columns] = np.arange(len(columns))

    def moved(numbers: np.ndarray, place: np.ndarray) -> np.ndarray:
        places: np.ndarray = place[numbers]
        return places[places >= 0]

    moved_holdings = (
        replace(
            holding,
            nodes=moved(holding.nodes, place),
            edges=None if holding.edges is None else moved(holding.edges, edge_place),
            view=holding.view and holding.view.kept(place[holding.nodes] >= 0),
        )
        for holding in holdings
    )
    return tuple(holding for holding in moved_holdings if len(holding.nodes))
