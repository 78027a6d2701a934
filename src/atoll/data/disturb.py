"""Graphs with noise and gaps: one function per kind, each at a rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy import sparse

from atoll.graph import Graph, dense


def with_fewer_edges(graph: Graph, share: float, rng: np.random.Generator) -> Graph:
    """Without a share of the edges; both directions of an undirected one go together."""
    columns = _listed_once(graph)
    gone = rng.permutation(columns)[: round(share * len(columns))]
    lost = _numbers(graph, graph.edges[:, gone])

    def stays(pairs: np.ndarray) -> np.ndarray:
        kept: np.ndarray = (pairs[0] == pairs[1]) | ~np.isin(_numbers(graph, pairs), lost)
        return kept

    kept = stays(graph.edges)
    return replace(
        graph,
        edges=graph.edges[:, kept],
        weights=None if graph.weights is None else graph.weights[kept],
        probes=_probes(graph, lambda pairs: pairs[:, stays(pairs)]),
    )


def with_added_edges(graph: Graph, share: float, rng: np.random.Generator) -> Graph:
    """With as many new edges as a share of those there are, or as many as there is room for."""
    fresh = _unlinked(graph, round(share * len(_listed_once(graph))), rng)
    both = np.concatenate([fresh, fresh[::-1]], axis=1) if graph.undirected else fresh
    edges = np.concatenate([graph.edges, both], axis=1)
    weights, order = graph.weights, np.lexsort(edges[::-1])
    if weights is not None:
        made_up = np.full(both.shape[1], graph.mean_weight, dtype=weights.dtype)
        weights = np.concatenate([weights, made_up])[order]
    return replace(
        graph,
        edges=edges[:, order],
        weights=weights,
        probes=_probes(graph, lambda pairs: np.concatenate([pairs, fresh], axis=1)),
    )


def with_features_dropped(graph: Graph, share: float, rng: np.random.Generator) -> Graph:
    """With a share of the features that are not zero set to zero."""
    if sparse.issparse(graph.x):
        x = sparse.csr_array(graph.x, copy=True)
        x.eliminate_zeros()
        x.data[rng.permutation(x.nnz)[: round(share * x.nnz)]] = 0
        x.eliminate_zeros()
        return replace(graph, x=x)
    values = np.array(graph.x)
    there = np.flatnonzero(values)
    values.reshape(-1)[rng.permutation(there)[: round(share * len(there))]] = 0
    return replace(graph, x=values)


def with_noisy_features(graph: Graph, scale: float, rng: np.random.Generator) -> Graph:
    """``x + scale std_j N(0, 1)``, with ``std_j`` the standard deviation of feature j."""
    x = dense(graph.x)
    noise = rng.standard_normal(x.shape, dtype=np.float32) * x.std(axis=0)
    return replace(graph, x=(x + scale * noise).astype(x.dtype))


def with_labels_dropped(graph: Graph, share: float, rng: np.random.Generator) -> Graph:
    """Without a share of the training labels, but with one at least."""
    train = _only_training(graph)
    count = min(round(share * len(train)), max(len(train) - 1, 0))
    unknown = rng.permutation(train)[:count]
    y, left = graph.y.copy(), graph.train.copy()
    y[unknown], left[unknown] = -1, False
    return graph.relabelled(y=y, train=left, val=graph.val, name=graph.name)


def with_wrong_labels(graph: Graph, share: float, rng: np.random.Generator) -> Graph:
    """With another class, drawn uniformly, for a share of the training nodes."""
    train = _only_training(graph)
    wrong = rng.permutation(train)[: round(share * len(train))]
    y = graph.y.copy()
    y[wrong] = (y[wrong] + rng.integers(1, graph.classes, len(wrong))) % graph.classes
    return graph.relabelled(y=y, train=graph.train, val=graph.val, name=graph.name)


def _listed_once(graph: Graph) -> np.ndarray:
    """The columns of the edges as people count them."""
    source, target = graph.edges
    return np.flatnonzero(source < target if graph.undirected else source != target)


def _only_training(graph: Graph) -> np.ndarray:
    """Nodes that train; a node that validates or tests as well keeps its label."""
    return np.flatnonzero(graph.train & ~(graph.val | graph.test))


Changed = Callable[[np.ndarray], np.ndarray]


def _probes(graph: Graph, changed: Changed) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Links to train on are training labels, too: they follow the edges; hidden ones stay."""
    if not graph.probes:
        return ()
    (linked, others), *hidden = graph.probes
    return ((changed(linked), others), *hidden)


def _unlinked(graph: Graph, wanted: int, rng: np.random.Generator) -> np.ndarray:
    """So many pairs ``[2, m]`` that are no edges, no pairs of validation or test, no loops.

    If the forbidden numbers are ``f_0 < f_1 < ...``, then ``f_t - t`` others lie below ``f_t``, so
    the number of rank r among the others is r plus the count of t with ``f_t - t <= r``.
    """
    if graph.graph_of is not None:
        return _unlinked_within(graph, wanted, rng)
    hidden = [pairs for probe in graph.probes[1:] for pairs in probe]
    known = np.concatenate([graph.edges, *hidden], axis=1)
    forbidden = np.unique(_numbers(graph, known[:, known[0] != known[1]]))
    below = forbidden - np.arange(len(forbidden))
    n = graph.nodes
    free = n * (n - 1) // (2 if graph.undirected else 1) - len(forbidden)
    rank = rng.choice(free, size=min(wanted, free), replace=False)
    return _pairs(graph, rank + np.searchsorted(below, rank, side="right"))


def _unlinked_within(graph: Graph, wanted: int, rng: np.random.Generator) -> np.ndarray:
    """The same in a collection of small graphs: both ends of a pair are in one of them."""
    starts = graph.first_nodes
    sizes = np.diff(np.append(starts, graph.nodes))
    # Those of one size have the same pairs, at other places.
    several = [np.zeros((2, 0), dtype=np.int64)]
    for size in np.unique(sizes):
        u, v = np.nonzero(~np.eye(size, dtype=bool))
        inside = np.stack([u, v])[:, u < v] if graph.undirected else np.stack([u, v])
        several += [inside + start for start in starts[sizes == size]]
    pairs = np.concatenate(several, axis=1)
    free = np.flatnonzero(~np.isin(_numbers(graph, pairs), _numbers(graph, graph.edges)))
    return pairs[:, rng.permutation(free)[:wanted]]


def _numbers(graph: Graph, pairs: np.ndarray) -> np.ndarray:
    """Pairs of different nodes, numbered from 0 without gaps; both directions alike if undirected.

    Undirected, the pair of u < v is number ``v (v - 1) / 2 + u``; directed, (u, v) is
    ``u (n - 1) + v``, less one where v > u.
    """
    u, v = pairs.astype(np.int64)
    if graph.undirected:
        u, v = np.minimum(u, v), np.maximum(u, v)
        numbers: np.ndarray = v * (v - 1) // 2 + u
    else:
        numbers = u * (graph.nodes - 1) + v - (v > u)
    return numbers


def _pairs(graph: Graph, numbers: np.ndarray) -> np.ndarray:
    """The inverse of :func:`_numbers`."""
    if not graph.undirected:
        u, v = np.divmod(numbers, max(graph.nodes - 1, 1))
        return np.stack([u, v + (v >= u)])
    v = ((1 + np.sqrt(1 + 8 * numbers.astype(np.float64))) / 2).astype(np.int64)
    v -= v * (v - 1) // 2 > numbers  # a root may be rounded up, or down
    v += v * (v + 1) // 2 <= numbers
    return np.stack([numbers - v * (v - 1) // 2, v])
