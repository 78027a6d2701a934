from dataclasses import replace

import numpy as np
import pytest
from small_graphs import cliques

from atoll.errors import AtollError
from atoll.partition.label_skew import LabelSkew
from atoll.rng import stream


def labels(parties, classes=3):
    return np.array([np.bincount(p.y[p.y >= 0], minlength=classes) for p in parties])


def test_a_large_alpha_gives_everybody_the_same():
    graph = cliques(30, 10)  # 100 nodes of each of 3 classes
    counts = labels(LabelSkew(clients=5, alpha=1e6).cut(graph, stream(0, "cut")))
    assert np.abs(counts - 20).max() <= 1


def test_a_small_alpha_gives_classes_to_few():
    graph = cliques(30, 10)
    skews = []
    for alpha in (0.05, 10.0):
        counts = labels(LabelSkew(clients=3, alpha=alpha).cut(graph, stream(0, "cut")))
        skews.append((counts.max(axis=0) / counts.sum(axis=0)).mean())
    assert skews[0] > 0.8
    assert skews[1] < 0.6


def test_balanced_clients_that_have_their_share_get_no_more():
    # Two classes, two clients: with a tiny alpha one client gets all of the first class, which is
    # its equal share, so the other gets all of the second.
    graph = cliques(2, 30)
    for seed in range(5):
        parties = LabelSkew(clients=2, alpha=0.001).cut(graph, stream(seed, "cut"))
        assert sorted(map(list, labels(parties, 3))) == [[0, 30, 0], [30, 0, 0]]


def test_unlabelled_nodes_are_dealt_out_evenly():
    graph, known = cliques(4, 10), np.arange(40) >= 12
    y, nobody = np.where(known, graph.y, -1), np.zeros(40, dtype=bool)
    graph = replace(graph, y=y, train=known, test=nobody)
    parties = LabelSkew(clients=3, alpha=5.0).cut(graph, stream(0, "cut"))
    assert [int((p.y < 0).sum()) for p in parties] == [4, 4, 4]


def test_everybody_has_nodes_and_something_to_train_on():
    graph = cliques(10, 6)
    for seed in range(10):
        for party in LabelSkew(clients=4, alpha=0.3, smallest=8).cut(graph, stream(seed, "cut")):
            assert party.nodes >= 8
            assert party.train.any()


def test_a_cut_that_can_not_be_is_refused():
    with pytest.raises(AtollError, match="fewer than 20 nodes"):
        LabelSkew(clients=4, smallest=20).cut(cliques(10, 6), stream(0, "cut"))
