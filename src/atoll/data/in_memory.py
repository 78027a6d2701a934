"""A graph made in Python, as a dataset."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from hashlib import blake2b
from weakref import WeakValueDictionary

import numpy as np

from atoll.data.base import Dataset, datasets
from atoll.errors import AtollError
from atoll.graph import Features, Graph, View

# Graphs that are alive in this process, by digest: how a run's config finds its graph again.
_alive: WeakValueDictionary[str, Graph] = WeakValueDictionary()


@datasets.register("memory")
@dataclass(frozen=True, kw_only=True)
class InMemory(Dataset):
    """A graph made in Python: atoll.data.from_graph, from_pyg, from_networkx.

    A run's config keeps the graph's ``digest``, never the graph. To resume such a run, make the
    same graph again first: ``data = from_graph(graph); atoll.resume(run_dir)``.
    """

    digest: str = ""
    given: InitVar[Graph | None] = None

    def __post_init__(self, given: Graph | None) -> None:
        super().__post_init__()
        if given is not None:
            # Not a field, so that descriptions of a run don't carry it.
            object.__setattr__(self, "_held", given)
            _alive[self.digest] = given

    def load(self) -> Graph:
        held: Graph | None = getattr(self, "_held", _alive.get(self.digest))
        if held is None:
            raise AtollError(
                "the dataset 'memory' is a graph made in Python and kept nowhere else; make the "
                "same graph again with atoll.data.from_graph, from_pyg or from_networkx and call "
                "atoll.run or atoll.resume while you hold it."
            )
        return held


def from_graph(graph: Graph) -> InMemory:
    """A graph as the ``data`` of :func:`atoll.run`."""
    return InMemory(digest=digest(graph), given=graph)


def digest(graph: Graph) -> str:
    """A short fingerprint of all that a graph holds but its name."""
    total = blake2b(digest_size=16)
    total.update(repr((graph.classes, graph.class_names, graph.feature_names)).encode())
    parts: list[np.ndarray | None] = [*_arrays(graph.x), graph.edges, graph.y, graph.ids]
    parts += [graph.train, graph.val, graph.test]
    # Nothing is added where there are no weights: digests of old runs stay.
    parts += [] if graph.weights is None else [graph.weights]
    for holding in graph.holdings:
        parts += [np.array(holding.name), holding.nodes, holding.edges]
        view = holding.view or View()
        parts += [*_arrays(view.x), view.known, view.used]
        parts += [] if view.weights is None else [view.weights]
    for part in parts:
        if part is None:
            total.update(b"none")
            continue
        plain = part.astype(str) if part.dtype == object else part
        total.update(f"{plain.dtype.str} {plain.shape}".encode())
        total.update(np.ascontiguousarray(plain).data)
    return total.hexdigest()


def _arrays(x: Features | None) -> list[np.ndarray | None]:
    if x is None or isinstance(x, np.ndarray):
        return [x]
    return [x.data, x.indices, x.indptr, np.array(x.shape)]
