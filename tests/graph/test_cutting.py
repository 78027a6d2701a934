"""Disjoint parts in one pass are the subgraphs that each client's nodes induce."""

from dataclasses import fields, replace

import numpy as np
import pytest
from scipy import sparse

from atoll.graph import Graph, Holding, View, disjoint_parts, make_graph, nodes_of

NODES = 60


def whole(sparse_x: bool = False, weighted: bool = False) -> Graph:
    rng = np.random.default_rng(0)
    x = rng.random((NODES, 5)).astype(np.float32)
    x[x < 0.7] = 0
    graph = make_graph(
        sparse.csr_array(x) if sparse_x else x,
        rng.integers(NODES, size=(2, 200)),
        rng.integers(3, size=NODES),
        ids=np.array([f"id {i}" for i in range(NODES)]),
        name="whole",
    )
    split = rng.integers(3, size=NODES)
    edges = graph.edges.shape[1]
    holdings = (
        Holding("all", np.arange(NODES), view=View(known=rng.random(NODES) < 0.5)),
        Holding("some", rng.permutation(NODES)[:20], edges=np.arange(0, edges, 3)),
    )
    return replace(
        graph,
        train=split == 0,
        val=split == 1,
        test=split == 2,
        holdings=holdings,
        weights=rng.random(edges) if weighted else None,
    )


def same(one, other) -> bool:
    if sparse.issparse(one):
        return (one != other).nnz == 0 and one.dtype == other.dtype
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, Holding | View):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@pytest.mark.parametrize("sparse_x", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("runs", [False, True])
def test_parts_are_the_induced_subgraphs(sparse_x, weighted, runs, monkeypatch):
    monkeypatch.setattr("atoll.graph.cutting._EDGES_AT_ONCE", 50)
    graph = whole(sparse_x, weighted)
    owner = (
        np.arange(NODES) * 7 // NODES if runs else np.random.default_rng(1).integers(7, size=NODES)
    )
    nodes_K = nodes_of(owner, 7)
    nodes_K[2] = nodes_K[2][::-1]  # nodes come in the order given
    nodes_K.pop(4)  # some belong to nobody
    names = [f"part {k}" for k in range(6)]
    parts = disjoint_parts(graph, nodes_K, names)
    assert parts is not None
    for nodes, name, part in zip(nodes_K, names, parts, strict=True):
        expected = graph.subgraph(nodes, name)
        for f in fields(Graph):
            assert same(getattr(part, f.name), getattr(expected, f.name)), f.name


def test_runs_of_nodes_share_the_memory_of_the_whole():
    graph = whole()
    parts = disjoint_parts(graph, [np.arange(20), np.arange(20, NODES)], ["a", "b"])
    assert parts is not None
    assert np.shares_memory(parts[1].x, graph.x)


def test_parts_that_overlap_are_left_to_others():
    assert disjoint_parts(whole(), [np.arange(5), np.arange(4, 9)], ["a", "b"]) is None
    assert disjoint_parts(whole(), [np.arange(NODES), np.arange(3)], ["a", "b"]) is None
