"""Collections of small graphs that one can reason about."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from scipy import sparse

from atoll.graph import Graph, make_graph, node_mask


def collection(shapes: list[tuple[str, int]], features: np.ndarray | None = None) -> Graph:
    """Rings (class 1) and paths (class 0) of some sizes; a feature of 1, or those given."""
    edges, graph_of, y, start = [], [], [], 0
    for number, (shape, size) in enumerate(shapes):
        nodes = np.arange(start, start + size)
        edges += list(pairwise(nodes))
        if shape == "ring":
            edges.append((nodes[-1], nodes[0]))
        graph_of += [number] * size
        y += [int(shape == "ring")] + [-1] * (size - 1)
        start += size
    x = np.ones((start, 1), dtype=np.float32) if features is None else features
    whole = make_graph(x, np.array(edges).T, np.array(y), classes=2, name="shapes")
    return replace(whole, graph_of=np.array(graph_of))


def collection_parties(
    sizes: tuple[int, ...] = (7, 11, 5, 9, 8, 6), dense: bool = False, seed: int = 0
) -> list[Graph]:
    """Parties with so many small graphs, whose words tell rings from paths more often than not."""
    rng = np.random.default_rng(seed)
    parties = []
    for client, count in enumerate(sizes):
        shapes = [(("ring", "path")[i % 2], int(rng.integers(3, 7))) for i in range(count)]
        kind = np.repeat([int(shape == "ring") for shape, _ in shapes], [n for _, n in shapes])
        words = rng.random((len(kind), 6)) < 0.1
        words |= (np.arange(6) % 2 == kind[:, None]) & (rng.random((len(kind), 6)) < 0.5)
        x = words.astype(np.float32)
        graph = collection(shapes, x if dense else sparse.csr_array(x))
        first, fold = graph.first_nodes, np.arange(count) % 3
        fold[:2] = 0
        masks = {s: node_mask(first[fold == i], graph.nodes) for i, s in enumerate(_SPLITS)}
        ids = np.array([f"{client}-{i}" for i in range(graph.nodes)])
        parties.append(replace(graph, **masks, ids=ids, name=f"party {client}"))
    return parties


_SPLITS = ("train", "val", "test")
