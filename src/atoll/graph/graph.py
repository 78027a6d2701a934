"""One party's private subgraph."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from atoll.cached import Cached
from atoll.errors import AtollError
from atoll.graph.collection import check_collection, first_nodes, renumbered_from_0
from atoll.graph.edges import by_source, first_bad_weight
from atoll.graph.features import Features, first_not_finite
from atoll.graph.holding import Holding, View, renumbered
from atoll.notebook import html_table

SPLITS = ("train", "val", "test")


@dataclass(frozen=True, eq=False, repr=False)
class Graph(Cached):
    """Nodes with features, edges, labels, splits and entity ids.

    Shapes: ``x [n, f]`` dense or CSR; ``edges [2, e]`` as (source, target), both directions of
    an undirected edge; ``y [n]`` with -1 for unknown; ``train``, ``val``, ``test`` ``[n]``
    boolean; ``ids [n]`` the keys by which parties recognise the same entity. Ids are private.
    ``holdings`` say who naturally holds what, ``class_names`` and ``feature_names`` what classes
    and features are called, where the data knows. ``anchors`` are the rows whose entities other
    parties hold too, once they have been matched (:mod:`atoll.partition.anchors`). ``probes`` are
    pairs of rows to be told apart, linked ones ``[2, m]`` and others, for train, val and test,
    where links are what is predicted (:mod:`atoll.tasks.links`). ``weights [e]`` are those of the
    edges, finite and not negative; None where all weigh 1.

    A collection of small graphs is one graph without edges between them. ``graph_of [n]`` then
    says which of them a node belongs to, counted from 0, node by node of one before the next; the
    label of a small graph and its place in a split stand at its first node, and no other node has
    any. ``space`` names what features and classes mean, where parties of one federation differ in
    that.
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
    anchors: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    probes: tuple[tuple[np.ndarray, np.ndarray], ...] = ()
    weights: np.ndarray | None = None
    graph_of: np.ndarray | None = None
    space: str = ""

    def __post_init__(self) -> None:
        self._check_lengths()
        self._check_features_and_edges()
        self._check_weights()
        self._check_labels()
        if self.graph_of is not None:
            check_collection(self.name, self.graph_of, self.y, self.edges)

    def __repr__(self) -> str:
        """Its sizes: ids and what they have are many, and private."""
        counts = ((self.edges.shape[1], "directed edges"), (self.features, "features"))
        sizes = ", ".join(f"{n:,} {what}" for n, what in ((self.nodes, "nodes"), *counts))
        splits = ", ".join(f"{int(getattr(self, s).sum()):,} {s}" for s in SPLITS)
        return f"<Graph {self.name!r}: {sizes}, {self.classes} classes; {splits}>"

    def _repr_html_(self) -> str:
        splits = ", ".join(f"{int(getattr(self, s).sum()):,} {s}" for s in SPLITS)
        rows = [
            ("nodes", f"{self.nodes:,} ({splits})"),
            ("edges", f"{self.edge_count:,}{'' if self.undirected else ' directed'}"),
            ("features", f"{self.features:,}"),
            ("classes", ", ".join(self.class_names[:10]) or str(self.classes)),
        ]
        return html_table(self.name, ("", ""), rows)

    def _check_lengths(self) -> None:
        for what in ("y", *SPLITS, "ids"):
            if len(getattr(self, what)) != self.nodes:
                raise AtollError(
                    f"{self.name}: '{what}' has {len(getattr(self, what))} entries for "
                    f"{self.nodes} nodes; give one per node."
                )

    def _check_features_and_edges(self) -> None:
        n = self.nodes
        if (bad := first_not_finite(self.x)) is not None:
            row, column = bad
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

    def _check_weights(self) -> None:
        if self.weights is None:
            return
        if self.weights.shape != self.edges.shape[1:]:
            raise AtollError(
                f"{self.name}: 'weights' has the shape {self.weights.shape} for "
                f"{self.edges.shape[1]} edges; give one per edge."
            )
        if (bad := first_bad_weight(self.weights)) is not None:
            raise AtollError(
                f"{self.name}: the weight of edge {bad} is {self.weights[bad]}; weights are finite "
                f"and at least 0."
            )

    def _check_labels(self) -> None:
        if self.nodes and not -1 <= self.y.min() <= self.y.max() < self.classes:
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

    @property
    def nodes(self) -> int:
        return int(self.x.shape[0])

    @property
    def first_nodes(self) -> np.ndarray:
        """The nodes that may have labels: of a collection, each small graph's first one."""
        return np.arange(self.nodes) if self.graph_of is None else first_nodes(self.graph_of)

    @property
    def features(self) -> int:
        return int(self.x.shape[1])

    @property
    def adjacency(self) -> sparse.csr_array:
        """``A[target, source] = 1``, duplicates merged; weights are not looked at."""

        def build() -> sparse.csr_array:
            ones = np.ones(self.edges.shape[1])
            a = sparse.csr_array((ones, (self.edges[1], self.edges[0])), shape=(self.nodes,) * 2)
            a.sum_duplicates()
            a.data[:] = 1.0
            return a

        return self.cached("adjacency", build)

    @property
    def weighted_adjacency(self) -> sparse.csr_array:
        """``A[target, source]`` is the edge's weight, those of duplicates added."""

        def build() -> sparse.csr_array:
            entries = (self.weights, (self.edges[1], self.edges[0]))
            a = sparse.csr_array(entries, shape=(self.nodes,) * 2)
            a.sum_duplicates()
            return a

        return self.adjacency if self.weights is None else self.cached("weighted adjacency", build)

    @property
    def edge_count(self) -> int:
        """The edges as people count them: both directions of an undirected one are one edge."""
        return int(self.edges.shape[1]) // (2 if self.undirected else 1)

    @property
    def mean_weight(self) -> float:
        """What an edge weighs on average: the weight of edges that are made up."""
        return 1.0 if self.weights is None or not len(self.weights) else float(self.weights.mean())

    @property
    def symmetric(self) -> bool:
        """Whether every edge has its reverse, of the same weight."""

        def check() -> bool:
            a = self.weighted_adjacency
            return np.array_equal(a.data, a.T.tocsr().data)

        return self.undirected and (self.weights is None or self.cached("symmetric", check))

    @property
    def undirected(self) -> bool:
        def check() -> bool:
            a, t = self.adjacency, self.adjacency.T.tocsr()
            # Sorted rows of ones: the same entries make the same arrays.
            return np.array_equal(a.indptr, t.indptr) and np.array_equal(a.indices, t.indices)

        return self.cached("undirected", check)

    def relabelled(
        self,
        *,
        y: np.ndarray,
        train: np.ndarray,
        val: np.ndarray,
        test: np.ndarray | None = None,
        name: str,
    ) -> Graph:
        """The same features and edges with other labels and splits; what is derived is shared.

        Test nodes stay unless others are given.
        """
        test = self.test if test is None else test
        return self._with(y=y, train=train, val=val, test=test, name=name)

    def with_anchors(self, rows: np.ndarray) -> Graph:
        """The same graph, its anchors known."""
        return self._with(anchors=rows)

    def with_own(self, **own: Any) -> Graph:
        """The same features and edges with anything else of its own; what is derived is shared."""
        return self._with(**own)

    def _with(self, **changed: Any) -> Graph:
        # Features and edges have been checked, and on a large graph that takes a while.
        other = copy(self)
        # What is derived follows from them alone, so both graphs keep it in one place.
        vars(other)["_derived"] = self.derived
        for name, value in changed.items():
            object.__setattr__(other, name, value)
        other._check_lengths()
        other._check_labels()
        return other

    def held(self, holding: Holding) -> Graph:
        """One party's graph: its nodes, and its edges between them."""
        place = self._places(holding.nodes)
        if holding.edges is None:
            columns = self._columns_between(place)
        else:
            columns = holding.edges[(place[self.edges[:, holding.edges]] >= 0).all(axis=0)]
        name = f"{self.name} {holding.name}"
        party = self._part(holding.nodes, place, columns, (), name)
        if holding.space:
            party = party._with(space=holding.space)
        return party if holding.view is None else party._with_view(holding.view)

    def _with_view(self, view: View) -> Graph:
        """A party's graph as it has it; splits of the whole reach it only where its view allows."""
        allowed = np.ones(self.nodes, dtype=bool)
        for restriction in (view.known, view.used):
            allowed &= True if restriction is None else restriction
        return replace(
            self,
            x=self.x if view.x is None else view.x,
            y=self.y if view.known is None else np.where(view.known, self.y, -1),
            weights=self.weights if view.weights is None else view.weights,
            train=self.train & allowed,
            val=self.val & allowed,
            test=self.test & allowed,
        )

    def subgraph(self, nodes: np.ndarray, name: str | None = None) -> Graph:
        """The graph induced on some nodes, in the order given. Holdings shrink with it."""
        place = self._places(nodes)
        columns = self._columns_between(place)
        holdings = renumbered(self.holdings, place, columns, self.edges.shape[1])
        part = self._part(nodes, place, columns, holdings, name or self.name)
        if self.derived.get("undirected"):
            part.derived["undirected"] = True
        return part

    def _part(
        self,
        nodes: np.ndarray,
        place: np.ndarray,
        columns: np.ndarray,
        holdings: tuple[Holding, ...],
        name: str,
    ) -> Graph:
        return replace(
            self,
            x=self.x[nodes],
            edges=place[self.edges[:, columns]],
            weights=None if self.weights is None else self.weights[columns],
            y=self.y[nodes],
            train=self.train[nodes],
            val=self.val[nodes],
            test=self.test[nodes],
            ids=self.ids[nodes],
            graph_of=None if self.graph_of is None else renumbered_from_0(self.graph_of[nodes]),
            name=name,
            holdings=holdings,
            anchors=np.zeros(0, dtype=np.int64),
            probes=(),
        )

    def _places(self, nodes: np.ndarray) -> np.ndarray:
        """Where each node stands among some nodes ``[n]``, -1 for the others."""
        place = np.full(self.nodes, -1, dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        return place

    def _columns_between(self, place: np.ndarray) -> np.ndarray:
        """The edges whose ends both have a place, ascending; only their own edges are looked at."""
        order, start = self.cached("edges by source", lambda: by_source(self.edges[0], self.nodes))
        inside = np.flatnonzero(place >= 0)
        degree = start[inside + 1] - start[inside]
        before = np.cumsum(degree) - degree
        columns = np.repeat(start[inside] - before, degree)
        columns += np.arange(len(columns))
        if order is not None:
            columns = np.sort(order[columns])
        kept: np.ndarray = columns[place[self.edges[1, columns]] >= 0]
        return kept
