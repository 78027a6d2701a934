from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from small_graphs import cliques, edge_set, few_examples, graphs

from atoll.errors import AtollError
from atoll.partition.shared_graph import SharedGraph
from atoll.rng import stream


@few_examples
@given(graph=graphs(), clients=st.integers(1, 5), seed=st.integers(0, 2**32))
def test_everybody_has_the_graph_and_nobody_another_ones_labels(graph, clients, seed):
    assume(graph.train.sum() >= clients)
    parties = SharedGraph(clients=clients).cut(graph, stream(seed, "cut"))
    for split in ("train", "val"):
        dealt = np.sum([getattr(party, split) for party in parties], axis=0)
        assert (dealt == getattr(graph, split)).all(), "each label is dealt to one client"
        sizes = [getattr(party, split).sum() for party in parties]
        assert max(sizes) - min(sizes) <= 1
    for party in parties:
        assert (party.ids == graph.ids).all()
        assert edge_set(party) == edge_set(graph)
        assert (party.test == graph.test).all()
        others = (graph.train | graph.val) & ~(party.train | party.val)
        assert (party.y[others] == -1).all()
        assert (party.y[~others] == graph.y[~others]).all()


def test_the_graph_is_in_memory_once():
    graph = cliques(4, 5)
    first, second = SharedGraph(clients=2).cut(graph, stream(0, "cut"))
    assert first.x is graph.x is second.x
    assert first.adjacency is second.adjacency


def test_too_few_labels_to_deal():
    graph = cliques(2, 6)
    one_label = replace(graph, train=np.arange(12) == 0)
    with pytest.raises(AtollError, match="1 training nodes for 3 clients"):
        SharedGraph(clients=3).cut(one_label, stream(0, "cut"))


def test_dealt_first_and_halved_then_everybody_trains():
    """10 labels for 6 clients: four have a node of each part, two have one to train on."""
    graph = cliques(4, 5)
    labels = np.arange(20) < 10
    graph = replace(
        graph,
        train=labels & (np.arange(20) % 2 == 0),
        val=labels & (np.arange(20) % 2 == 1),
        test=np.arange(20) >= 15,
    )
    parties = SharedGraph(clients=6, halve=True).cut(graph, stream(0, "cut"))
    assert (
        sorted((int(p.train.sum()), int(p.val.sum())) for p in parties)
        == [(1, 0)] * 2 + [(1, 1)] * 4
    )
    assert (np.sum([p.train | p.val for p in parties], axis=0) == labels).all()
    assert any(p.train[graph.val].any() for p in parties), "halves are the clients' own"
    assert all((p.test == graph.test).all() for p in parties)


def test_too_few_labels_to_deal_and_halve():
    graph = replace(cliques(2, 6), train=np.arange(12) == 0, val=np.arange(12) == 1)
    with pytest.raises(AtollError, match="2 labelled nodes for 3 clients"):
        SharedGraph(clients=3, halve=True).cut(graph, stream(0, "cut"))
