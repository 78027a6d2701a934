"""Edges as two rows of node numbers ``[2, e]``."""

from __future__ import annotations

import numpy as np

from atoll.errors import AtollError


def undirected_edges(edges: np.ndarray, nodes: int) -> np.ndarray:
    """Both directions of every edge once, without self-loops, sorted."""
    if edges.size and not 0 <= edges.min() <= edges.max() < nodes:
        raise AtollError(f"edges must be two rows of node numbers from 0 to {nodes - 1}.")
    source, target = edges[:, edges[0] != edges[1]].astype(np.int64)
    # Both ends packed into one number: shifting is quicker than multiplying and dividing.
    bits = max(nodes - 1, 1).bit_length()
    keys = sorted_distinct(np.concatenate([source << bits | target, target << bits | source]))
    both = np.empty((2, len(keys)), dtype=np.int64)
    np.right_shift(keys, bits, out=both[0])
    np.bitwise_and(keys, (1 << bits) - 1, out=both[1])
    return both


def directed_edges(edges: np.ndarray, nodes: int) -> np.ndarray:
    """Every edge once in its own direction, without self-loops, sorted."""
    source, target = edges.astype(np.int64)
    keep = source != target
    keys = sorted_distinct(source[keep] * nodes + target[keep])
    return np.stack([keys // nodes, keys % nodes])


def undirected_weights(edges: np.ndarray, weights: np.ndarray, both: np.ndarray) -> np.ndarray:
    """The weights of undirected edges ``both``, made of listed ones.

    Weights listed for the same direction are added; where both directions are listed, the edge has
    the mean of the two, so that listing it once or in both directions is the same.
    """
    listed, total = _total_weights(edges, weights)
    forward = _looked_up(both, listed, total)
    backward = _looked_up(both[::-1], listed, total)
    return np.where(
        np.isnan(forward),
        backward,
        np.where(np.isnan(backward), forward, (forward + backward) / 2),
    )


def directed_weights(edges: np.ndarray, weights: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """The weights of directed edges ``kept``, made of listed ones; those listed twice are added."""
    return _looked_up(kept, *_total_weights(edges, weights))


def first_bad_weight(weights: np.ndarray) -> int | None:
    """The first weight that is not finite or negative; None if there is none."""
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    return int(bad[0]) if len(bad) else None


def _keys(edges: np.ndarray) -> np.ndarray:
    keys: np.ndarray = edges[0].astype(np.int64) << 32 | edges[1].astype(np.int64)
    return keys


def _total_weights(edges: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each listed edge once, as a key, and the sum of its weights."""
    listed, place = np.unique(_keys(edges), return_inverse=True)
    return listed, np.bincount(place, weights=weights, minlength=len(listed))


def _looked_up(edges: np.ndarray, listed: np.ndarray, total: np.ndarray) -> np.ndarray:
    """The total of each edge; NaN where it is not listed."""
    wanted = _keys(edges)
    if not len(listed):
        return np.full(len(wanted), np.nan)
    place = np.minimum(np.searchsorted(listed, wanted), len(listed) - 1)
    return np.where(listed[place] == wanted, total[place], np.nan)


def sorted_distinct(keys: np.ndarray) -> np.ndarray:
    """Each key once, ascending. ``keys`` itself is sorted on the way."""
    # np.unique would hash, many times slower on millions of edges.
    keys.sort()
    first = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    distinct: np.ndarray = keys[first]
    return distinct


def by_source(source: np.ndarray, nodes: int) -> tuple[np.ndarray | None, np.ndarray]:
    """The edges in order of their source (None if they are so already) and where each starts."""
    is_sorted = bool((source[1:] >= source[:-1]).all())
    start = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=nodes))])
    return (None if is_sorted else np.argsort(source, kind="stable")), start
