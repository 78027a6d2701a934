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
