"""One party's private subgraph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

import numpy as np
from scipy import sparse

from atoll.errors import AtollError

Features: TypeAlias = "np.ndarray | sparse.csr_array"
T = TypeVar("T")


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
    None for every edge between the nodes. Holdings may overlap.
    """

    name: str
    nodes: np.ndarray
    edges: np.ndarray | None = None
    view: View | None = None


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes with features, edges, labels, splits and entity ids.

    Shapes: ``x [n, f]`` dense or CSR; ``edges [2, e]`` as (source, target), both directions of
    an undirected edge; ``y [n]`` with -1 for unknown; ``train``, ``val``, ``test`` ``[n]``
    boolean; ``ids [n]`` the keys by which parties recognise the same entity. Ids are private.
    ``holdings`` say who naturally holds what, ``class_names`` and ``feature_names`` what classes
    and features are called, where the data knows.
    """

    x: Features
    edges: np.ndarray
    y: np.ndarray
    classes: int
    train: np.ndarray
    val: np.ndarray
    test: np.ndarray
    ids: np.ndarray
    name: str = "graph"
    holdings: tuple[Holding, ...] = ()
    class_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    _cache: dict[str, object] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        n = self.nodes
        for what in ("y", "train", "val", "test", "ids"):
            if len(getattr(self, what)) != n:
                raise AtollError(
                    f"{self.name}: '{what}' has {len(getattr(self, what))} entries for {n} nodes; "
                    f"give one per node."
                )
        values = self.x.data if sparse.issparse(self.x) else self.x
        if not np.isfinite(values).all():
            row, column = self._first_bad_feature()
            raise AtollError(
                f"{self.name}: feature {column} of node {row} (id {self.ids[row]}) is NaN or "
                f"infinite; fill or drop it before loading."
            )
        if self.edges.shape[0] != 2 or (
            self.edges.size and not 0 <= self.edges.min() <= self.edges.max() < n
        ):
            raise AtollError(
                f"{self.name}: edges must be two rows of node numbers from 0 to {n - 1}."
            )
        if n and not -1 <= self.y.min() <= self.y.max() < self.classes:
            bad = int(np.flatnonzero((self.y < -1) | (self.y >= self.classes))[0])
            raise AtollError(
                f"{self.name}: node {bad} has label {self.y[bad]}, outside 0 to "
                f"{self.classes - 1}; use -1 for an unknown label."
            )
        names = self.class_names
        if names and not len(names) == len(set(names)) == self.classes:
            raise AtollError(
                f"{self.name}: class_names are {', '.join(names)} for {self.classes} classes; give "
                f"each class a name of its own, or none."
            )
        unlabelled = (self.train | self.val | self.test) & (self.y < 0)
        if unlabelled.any():
            raise AtollError(
                f"{self.name}: node {int(np.flatnonzero(unlabelled)[0])} is in a split but has no "
                f"label; leave unlabelled nodes out of the splits."
            )

    def _first_bad_feature(self) -> tuple[int, int]:
        stored = sparse.coo_array(self.x)
        at = np.flatnonzero(~np.isfinite(stored.data))[0]
        rows, columns = stored.coords
        return int(rows[at]), int(columns[at])

    @property
    def nodes(self) -> int:
        return int(self.x.shape[0])

    @property
    def features(self) -> int:
        return int(self.x.shape[1])

    @property
    def adjacency(self) -> sparse.csr_array:
        """``A[target, source] = 1``, duplicates merged."""

        def build() -> sparse.csr_array:
            ones = np.ones(self.edges.shape[1])
            a = sparse.csr_array((ones, (self.edges[1], self.edges[0])), shape=(self.nodes,) * 2)
            a.sum_duplicates()
            a.data[:] = 1.0
            return a

        return self.cached("adjacency", build)

    @property
    def undirected(self) -> bool:
        def check() -> bool:
            return bool((self.adjacency != self.adjacency.T).nnz == 0)

        return self.cached("undirected", check)

    def cached(self, key: str, build: Callable[[], T]) -> T:
        """A graph never changes, so what is derived from it is computed once."""
        if key not in self._cache:
            self._cache[key] = build()
        return self._cache[key]  # type: ignore[return-value]

    def held(self, holding: Holding) -> Graph:
        """One party's graph: its nodes, and its edges between them."""
        mine = self if holding.edges is None else replace(self, edges=self.edges[:, holding.edges])
        party = replace(mine, holdings=()).subgraph(
            holding.nodes, name=f"{self.name} {holding.name}"
        )
        return party if holding.view is None else holding.view.of(party)

    def subgraph(self, nodes: np.ndarray, name: str | None = None) -> Graph:
        """The graph induced on some nodes, in the order given. Holdings shrink with it."""
        place = np.full(self.nodes, -1, dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        edges = place[self.edges]
        kept = (edges >= 0).all(axis=0)
        return replace(
            self,
            x=self.x[nodes],
            edges=edges[:, kept],
            holdings=_shrunk(self.holdings, place, np.where(kept, np.cumsum(kept) - 1, -1)),
            y=self.y[nodes],
            train=self.train[nodes],
            val=self.val[nodes],
            test=self.test[nodes],
            ids=self.ids[nodes],
            name=name or self.name,
        )


def _shrunk(
    holdings: tuple[Holding, ...], node_place: np.ndarray, edge_place: np.ndarray
) -> tuple[Holding, ...]:
    """Holdings in a subgraph's numbers; a place of -1 means gone, and so is an empty holding."""

    def moved(numbers: np.ndarray, place: np.ndarray) -> np.ndarray:
        places: np.ndarray = place[numbers]
        return places[places >= 0]

    shrunk = (
        Holding(
            holding.name,
            moved(holding.nodes, node_place),
            None if holding.edges is None else moved(holding.edges, edge_place),
            holding.view and holding.view.kept(node_place[holding.nodes] >= 0),
        )
        for holding in holdings
    )
    return tuple(holding for holding in shrunk if len(holding.nodes))


def make_graph(
    x: Features,
    edges: np.ndarray,
    y: np.ndarray,
    *,
    classes: int | None = None,
    ids: np.ndarray | None = None,
    name: str = "graph",
) -> Graph:
    """A graph without splits: edges made undirected, loops and duplicates dropped."""
    n = x.shape[0]
    nothing = np.zeros(n, dtype=bool)
    return Graph(
        x=x,
        edges=undirected_edges(edges, n),
        y=np.asarray(y, dtype=np.int64),
        classes=int(y.max()) + 1 if classes is None else classes,
        train=nothing,
        val=nothing,
        test=nothing,
        ids=np.arange(n) if ids is None else ids,
        name=name,
    )


def undirected_edges(edges: np.ndarray, nodes: int) -> np.ndarray:
    """Both directions of every edge once, without self-loops, sorted."""
    source, target = np.concatenate([edges, edges[::-1]], axis=1).astype(np.int64)
    keep = source != target
    keys = np.unique(source[keep] * nodes + target[keep])
    return np.stack([keys // nodes, keys % nodes])


def largest_component(graph: Graph) -> Graph:
    """The induced graph on the largest connected component."""
    count, label = sparse.csgraph.connected_components(graph.adjacency, directed=False)
    if count <= 1:
        return graph
    return graph.subgraph(np.flatnonzero(label == np.bincount(label).argmax()))


def dense(x: Features) -> np.ndarray:
    return x.toarray() if sparse.issparse(x) else x  # type: ignore[union-attr]


def row_normalised(x: Features) -> Features:
    """Each row divided by its sum; rows that sum to zero stay as they are."""
    total = np.asarray(x.sum(axis=1), dtype=np.float64).reshape(-1)
    scale = np.divide(1.0, total, out=np.ones_like(total), where=total != 0)
    if sparse.issparse(x):
        return sparse.csr_array(sparse.diags_array(scale) @ x).astype(x.dtype)
    return (x * scale[:, None]).astype(x.dtype)
