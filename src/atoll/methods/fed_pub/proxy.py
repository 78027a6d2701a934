"""Random graphs on which models are compared."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.device import kept_per_device
from atoll.graph import Graph, make_graph
from atoll.models.base import Model
from atoll.ops.similarity import cosine
from atoll.rng import CohortRng, server_stream, stream
from atoll.tree import Params

ProxyKind = Literal["sbm", "er", "one", "features"]
_BLOCKS, _BLOCK_SIZE, _INSIDE = 5, 100, 0.1


def proxy_graph(
    kind: ProxyKind, features: int, classes: int, across: float, rng: np.random.Generator
) -> Graph:
    """FED-PUB's proxies (Appendix B.3 and C.6), with standard normal features.

    ``sbm``: 5 blocks of 100 nodes, edges with probability 0.1 inside a block and ``across`` between
    blocks. ``er``: as many nodes, every pair with the sbm's mean probability. ``one``: a node.
    ``features``: the sbm, to be dressed in a client's own features (:func:`own_features`). Its
    nodes have no labels that matter; ``classes`` are those that the models tell apart.
    """
    if kind == "one":
        return _normal_features(1, features, classes, np.zeros((2, 0), dtype=np.int64), rng)
    n = _BLOCKS * _BLOCK_SIZE
    block = np.arange(n) // _BLOCK_SIZE
    chance = np.where(block[:, None] == block, _INSIDE, across)
    if kind == "er":
        chance = np.full((n, n), chance[np.triu_indices(n, 1)].mean())
    edges = np.argwhere(np.triu(rng.random((n, n)) < chance, 1)).T
    return _normal_features(n, features, classes, edges, rng)


def _normal_features(
    nodes: int, features: int, classes: int, edges: np.ndarray, rng: np.random.Generator
) -> Graph:
    x = rng.normal(size=(nodes, features)).astype(np.float32)
    return make_graph(x, edges, np.zeros(nodes, dtype=np.int64), classes=classes, name="proxy")


@kept_per_device(maxsize=4)
def proxy_cohort(
    kind: ProxyKind,
    features: int,
    classes: int,
    across: float,
    k: int,
    dtype: torch.dtype,
    seed: int,
) -> Cohort:
    """K models' common view of the proxy graph that follows from the seed."""
    graph = proxy_graph(kind, features, classes, across, server_stream(seed, 0, "proxy graph"))
    return Cohort([graph] * k, dtype=dtype)


def own_features(cohort: Cohort, across: float, rng: CohortRng) -> Cohort:
    """The sbm with each client's own features: node i wears those of a random node of its own."""
    common = rng.common("proxy graph")
    bare = proxy_graph("features", 1, cohort.classes, across, common)
    dressed = []
    for graph, client in zip(cohort.graphs, cohort.clients, strict=True):
        rows = stream(rng.seed, client, 0, "proxy features").integers(0, graph.nodes, bare.nodes)
        x = graph.x[rows]
        dressed.append(make_graph(x, bare.edges, bare.y, classes=bare.classes, name="proxy"))
    return Cohort(dressed, cohort.clients, cohort.dtype)


def functional_similarity(
    model: Model,
    theta_K: Params,
    proxy: ProxyKind,
    features: int,
    classes: int,
    across: float,
    seed: int,
) -> Tensor:
    """The cosine of what each two models make of the proxy graph ``[K, K]``."""
    some = next(iter(theta_K.values()))
    cohort = proxy_cohort(proxy, features, classes, across, len(some), some.dtype, seed)
    with torch.no_grad():
        return cosine(model.mean_embedding(theta_K, cohort))


def embedding_width(model: Model, params_K: Params, features: int, classes: int) -> int:
    """How many numbers the model makes of a node, seen on one."""
    dtype = next(iter(params_K.values())).dtype
    with torch.no_grad():
        one = proxy_cohort("one", features, classes, 0.0, 1, dtype, 0)
        return model.embed(params_K, one).shape[1]
