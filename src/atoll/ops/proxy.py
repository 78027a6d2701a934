"""Random graphs on which models are compared."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
import torch

from atoll.cohort import SameGraph
from atoll.graph import Graph, make_graph
from atoll.rng import server_stream

ProxyKind = Literal["sbm", "er", "one"]
_BLOCKS, _BLOCK_SIZE, _INSIDE = 5, 100, 0.1


def proxy_graph(kind: ProxyKind, features: int, across: float, rng: np.random.Generator) -> Graph:
    """FED-PUB's proxies (Appendix B.3 and C.6), with standard normal features.

    ``sbm``: 5 blocks of 100 nodes, edges with probability 0.1 inside a block and ``across`` between
    blocks. ``er``: as many nodes, every pair with the sbm's mean probability. ``one``: a node.
    """
    if kind == "one":
        return _normal_features(1, features, np.zeros((2, 0), dtype=np.int64), rng)
    n = _BLOCKS * _BLOCK_SIZE
    block = np.arange(n) // _BLOCK_SIZE
    chance = np.where(block[:, None] == block, _INSIDE, across)
    if kind == "er":
        chance = np.full((n, n), chance[np.triu_indices(n, 1)].mean())
    edges = np.argwhere(np.triu(rng.random((n, n)) < chance, 1)).T
    return _normal_features(n, features, edges, rng)


def _normal_features(
    nodes: int, features: int, edges: np.ndarray, rng: np.random.Generator
) -> Graph:
    x = rng.normal(size=(nodes, features)).astype(np.float32)
    return make_graph(x, edges, np.zeros(nodes, dtype=np.int64), classes=1, name="proxy")


@lru_cache(maxsize=4)
def proxy_cohort(
    kind: ProxyKind, features: int, across: float, k: int, dtype: torch.dtype, seed: int
) -> SameGraph:
    """K models' common view of the proxy graph that follows from the seed."""
    graph = proxy_graph(kind, features, across, server_stream(seed, 0, "proxy graph"))
    return SameGraph(graph, k, dtype)
