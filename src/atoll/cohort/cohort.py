"""The data of K clients, packed so that one operation serves them all."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from atoll.cached import Cached
from atoll.cohort.collection import Collection, collection_of
from atoll.cohort.inputs import Inputs, Operator
from atoll.cohort.joined import inputs_of
from atoll.cohort.k_hop import part_of
from atoll.cohort.packed import Packed
from atoll.cohort.parts import Parts, split_rows
from atoll.cohort.picked import Picked
from atoll.cohort.targets import Targets
from atoll.device import of_numpy
from atoll.graph import SPLITS, Graph, nodes_of_graphs
from atoll.leaves import Ragged
from atoll.tree import Leaf

T = TypeVar("T")


class Cohort(Cached):
    """K clients side by side: ``sizes[k]`` rows belong to the client at position k.

    ``graphs`` are what tasks know: labels, splits, anchors, pairs of nodes. ``inputs`` are what
    models compute from (:class:`atoll.cohort.inputs.Inputs`): whole graphs unless others are given.
    ``clients`` are their numbers in the federation, which key their randomness; positions
    in a cohort mean nothing.
    """

    def __init__(
        self,
        graphs: Sequence[Graph],
        clients: Sequence[int] | None = None,
        dtype: torch.dtype = torch.float32,
        inputs: Inputs | None = None,
        columns: Mapping[str, np.ndarray] | None = None,
        collection: Collection | None = None,
    ) -> None:
        if not graphs:
            raise ValueError("a cohort has at least one client")
        self.graphs = graphs if isinstance(graphs, Parts) else tuple(graphs)
        self.clients = tuple(range(len(graphs)) if clients is None else clients)
        self.dtype = dtype
        self.inputs = inputs_of(self.graphs, dtype) if inputs is None else inputs
        self.k = len(self.graphs)
        self.sizes = self.inputs.sizes
        first = self.graphs.whole[0] if isinstance(self.graphs, Parts) else self.graphs[0]
        self.features, self.classes = first.features, first.classes
        # Whether these are some clients of a larger cohort, whose state is only theirs for a step.
        self.partial = False
        # Labels and splits of all rows, where they are known already.
        self._columns = columns or {}
        self._collection = collection

    def __repr__(self) -> str:
        nodes, dtype = sum(self.sizes), str(self.dtype).removeprefix("torch.")
        sizes = f"{nodes:,} nodes, {self.features:,} features, {self.classes} classes"
        return f"<Cohort of {self.k} client{'s' * (self.k > 1)}: {sizes}, {dtype}>"

    def take(self, positions: Sequence[int]) -> Cohort:
        """Some of the clients."""
        graphs = [self.graphs[p] for p in positions]
        clients = [self.clients[p] for p in positions]
        some = Cohort(graphs, clients, self.dtype, self.inputs.take(positions))
        some.partial = True
        return some

    def with_graphs(self, graphs: Sequence[Graph]) -> Cohort:
        """The same clients with other graphs."""
        return Cohort(graphs, self.clients, self.dtype)

    def relabelled(self, graphs: Sequence[Graph]) -> Cohort:
        """The same features and edges with other labels and splits; inputs are shared."""
        return Cohort(graphs, self.clients, self.dtype, self.inputs)

    def with_inputs(self, inputs: Inputs) -> Cohort:
        """The same tasks for models that compute from something else."""
        return Cohort(self.graphs, self.clients, self.dtype, inputs)

    def latest(self, key: Hashable, leaves: Sequence[Leaf], build: Callable[[], T]) -> T:
        """What ``build`` makes of some leaves; only the last result per key is kept.

        Leaves are compared entry by entry, so the result is the same as if it were made anew each
        time.
        """
        known: Any = self.derived.get(key)
        if known is None or not all(map(_equal, known[0], leaves)):
            known = tuple(leaf.clone() for leaf in leaves), build()
            self.derived[key] = known
        made: T = known[1]
        return made

    @property
    def one_graph(self) -> bool:
        """Whether several clients hold the same features and edges."""
        return self.inputs.shared

    @cached_property
    def first(self) -> Cohort:
        """The first client alone."""
        return self.take([0])

    def k_hop(self, reach: int | None, *splits: str) -> Cohort:
        """Only the nodes within ``reach`` hops of some splits, for clients where those are few.

        Operators and propagated features are the whole graph's, restricted, so that a model that
        depends on ``reach`` hops beyond the propagated features computes the same for the nodes of
        the splits. None is a reach that is not known: everything.
        """
        if reach is None:
            return self
        return self.cached(f"{reach} hops of {splits}", lambda: self._restricted(reach, splits))

    def _restricted(self, reach: int, splits: Sequence[str]) -> Cohort:
        inside = np.logical_or.reduce([self._column(split) for split in splits])
        found = self.inputs.k_hop(reach, split_rows(inside, np.array(self.sizes)))
        if found is None:
            return self
        parts = Parts(self.graphs, found.rows_K, _part)
        rows = self.rows_of(found.rows_K).cpu().numpy()

        columns = {name: self._column(name)[rows] for name in ("y", *SPLITS)}
        return Cohort(parts, self.clients, self.dtype, found.inputs, columns)

    def _padded(self, read: Callable[[Graph], np.ndarray]) -> list[np.ndarray]:
        """What is read from each graph ``[n]``, with -1 or False for rows that are not in it."""
        parts = []
        for graph, size in zip(self.graphs, self.sizes, strict=True):
            own = np.asarray(read(graph))
            if len(own) < size:
                nothing = False if own.dtype == bool else -1
                own = np.concatenate([own, np.full(size - len(own), nothing, dtype=own.dtype)])
            parts.append(own)
        return parts

    def _column(self, name: str) -> np.ndarray:
        """The labels ``y`` or the members of a split, of all rows ``[N]``."""

        def pack() -> np.ndarray:
            if name in self._columns:
                return self._columns[name]
            return np.concatenate(self._padded(lambda graph: getattr(graph, name)))

        return self.cached(f"column {name}", pack)

    @cached_property
    def batch(self) -> Tensor:
        """The position of each row's client ``[N]``."""
        return torch.repeat_interleave(torch.arange(self.k), torch.tensor(self.sizes))

    @cached_property
    def collection(self) -> Collection | None:
        """The clients' small graphs, where each holds many of them; None where each holds one."""
        return self._collection or collection_of(self.graphs)

    def picked(self, chosen_K: Sequence[np.ndarray]) -> Cohort:
        """Some of each client's small graphs, by their numbers, in that order."""
        collection = self.collection
        assert collection is not None
        nodes_K = [
            nodes_of_graphs(graph.graph_of, chosen)
            for graph, chosen in zip(self.graphs, chosen_K, strict=True)
            if graph.graph_of is not None
        ]
        rows = self.rows_of(nodes_K).cpu().numpy()
        columns = {name: self._column(name)[rows] for name in ("y", *SPLITS)}
        parts = Parts(self.graphs, nodes_K, Graph.subgraph)
        assert isinstance(self.inputs, Packed)
        return Cohort(
            parts,
            self.clients,
            self.dtype,
            Picked(self.inputs, nodes_K, parts),
            columns,
            collection.part(rows, [len(chosen) for chosen in chosen_K]),
        )

    @cached_property
    def y(self) -> Tensor:
        """Each row's class ``[N]``, -1 if it is not known."""
        return of_numpy(self._column("y"))

    @cached_property
    def labelled(self) -> Tensor:
        """How many nodes each client may train on ``[K]``; links, where they are the task."""
        if not self.graphs[0].probes:
            rows = self.rows("train")
            return torch.bincount(self.batch[rows], minlength=self.k).double()
        counts = [g.probes[0][0].shape[1] if g.probes else g.train.sum() for g in self.graphs]
        return torch.tensor([int(count) for count in counts], dtype=torch.float64)

    def rows(self, split: str) -> Tensor:
        """The nodes of a split, as row numbers."""

        def find() -> Tensor:
            return of_numpy(np.flatnonzero(self._column(split)))

        return self.cached(f"rows of {split}", find)

    def targets(self, split: str) -> Targets:
        """The nodes of a split, as those that a last layer is computed at."""

        def find() -> Targets:
            rows = self.rows(split)
            return Targets(self.inputs, rows, self.batch[rows])

        return self.cached(f"targets of {split}", find)

    def probes(self, split: str) -> tuple[Tensor, Tensor]:
        """Pairs of nodes of a split, linked ones and others, ``[2, m]`` each in row numbers."""

        def pack() -> tuple[Tensor, Tensor]:
            pairs = [g.probes[SPLITS.index(split)] for g in self.graphs]
            return self.rows_of([p for p, _ in pairs]), self.rows_of([n for _, n in pairs])

        return self.cached(f"probes of {split}", pack)

    def rows_of(self, nodes_K: Sequence[np.ndarray]) -> Tensor:
        """The clients' own node numbers ``[..., m]``, as row numbers of the cohort."""
        return self.inputs.rows_of(nodes_K)

    @cached_property
    def anchors(self) -> Ragged:
        """Each client's anchors, in the cohort's row numbers."""
        rows = [g.anchors for g in self.graphs]
        return Ragged(self.rows_of(rows), tuple(len(r) for r in rows))

    @property
    def edges(self) -> Tensor:
        """All clients' edges ``[2, E]`` in the cohort's row numbers."""
        return self.inputs.edges

    def operator(self, name: str) -> Operator:
        """A block-diagonal propagation matrix ``[N, N]``: ``gcn``, ``mean``, ``sum`` or ``sum and
        own``."""
        return self.inputs.operator(name)

    def linear(self, weight_K: Tensor, propagated: str = "", hops: int = 1) -> Tensor:
        """Features times weights, ``[K, f, h] -> [N, h]``.

        ``propagated`` names an operator P: the features are then ``P^hops X``.
        """
        return self.inputs.linear(weight_K, propagated, hops)


def _equal(one: Leaf, other: Leaf) -> bool:
    if isinstance(one, Ragged) and isinstance(other, Ragged):
        return one.sizes == other.sizes and torch.equal(one.values, other.values)
    return isinstance(one, Tensor) and isinstance(other, Tensor) and torch.equal(one, other)


def _part(graph: Graph, rows: np.ndarray) -> Graph:
    """What tasks know of some rows, ascending, of which the graph's own nodes come first."""
    own = rows[rows < graph.nodes]
    if len(own) == graph.nodes:
        return graph
    return part_of(graph, own).relabelled(
        y=graph.y[own],
        train=graph.train[own],
        val=graph.val[own],
        test=graph.test[own],
        name=graph.name,
    )
