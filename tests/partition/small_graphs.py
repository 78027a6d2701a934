"""Small graphs to cut: drawn by hypothesis, or by hand."""

from dataclasses import replace

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from atoll.graph import Graph, make_graph

# The same examples on every run: a check that fails must fail for everybody.
few_examples = settings(deadline=None, max_examples=25, derandomize=True)


@st.composite
def graphs(draw, smallest: int = 6, largest: int = 10) -> Graph:
    """4 to 6 blocks of nodes, dense inside and loosely tied, with random ids, labels and splits.

    Features tell the node: row i is ``(i, -i)``.
    """
    count, each = draw(st.integers(4, 6)), draw(st.integers(smallest, largest))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    block = np.repeat(np.arange(count), each)
    n = len(block)
    chance = np.where(block[:, None] == block, 0.6, draw(st.sampled_from([0.01, 0.05])))
    row = np.arange(n, dtype=np.float32)
    graph = make_graph(
        np.stack([row, -row], axis=1),
        np.stack(np.nonzero(rng.random((n, n)) < chance)),
        rng.integers(-1, 3, size=n),
        classes=3,
        ids=rng.permutation(n) + 1000,
    )
    role = np.where(graph.y >= 0, rng.integers(3, size=n), -1)
    return replace(graph, train=role == 0, val=role == 1, test=role == 2)


def cliques(count: int, size: int) -> Graph:
    """A ring of cliques: clique c is nodes ``c * size`` on, its last tied to the next one's first.

    Labels are clique numbers modulo 3; two nodes in three train, the others test.
    """
    n = count * size
    inside = [
        (c * size + i, c * size + j) for c in range(count) for i in range(size) for j in range(i)
    ]
    ties = [(c * size + size - 1, (c + 1) % count * size) for c in range(count)]
    node = np.arange(n)
    graph = make_graph(
        np.stack([node, -node], axis=1).astype(np.float32),
        np.array(inside + ties).T,
        node // size % 3,
        classes=3,
    )
    return replace(graph, train=node % 3 != 2, test=node % 3 == 2)


def path(n: int) -> Graph:
    """Nodes 0 - 1 - ... - n-1 with labels 0 and 1 in turn."""
    node = np.arange(n)
    x = np.stack([node, -node], axis=1).astype(np.float32)
    return make_graph(x, np.stack([node[:-1], node[1:]]), node % 2)


def edge_set(graph: Graph) -> set[tuple[int, int]]:
    """The edges as pairs of entity ids."""
    return set(zip(*graph.ids[graph.edges].tolist(), strict=True))


def id_set(graph: Graph) -> set[int]:
    return set(graph.ids.tolist())
