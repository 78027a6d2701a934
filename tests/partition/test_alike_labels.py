from dataclasses import replace

import numpy as np
import pytest
from small_graphs import cliques

from atoll.errors import AtollError
from atoll.partition.alike_labels import LouvainPlus, MetisPlus, alike
from atoll.rng import stream


@pytest.mark.parametrize("scheme", [LouvainPlus(clients=3), MetisPlus(clients=3, parts=6)])
def test_cliques_of_one_class_go_to_one_client(scheme):
    # Clique c has class c % 3 throughout: two cliques per class.
    for seed in range(5):
        parties = scheme.cut(cliques(6, 8), stream(seed, "cut"))
        assert sorted(set(p.y.tolist()).pop() for p in parties) == [0, 1, 2]
        assert [len(set(p.y.tolist())) for p in parties] == [1, 1, 1]
        assert [p.nodes for p in parties] == [16, 16, 16]


def test_communities_without_labels_count_as_mixed():
    graph, known = cliques(4, 6), np.arange(24) >= 6
    y, nobody = np.where(known, graph.y, -1), np.zeros(24, dtype=bool)
    graph = replace(graph, y=y, train=known, test=nobody)
    client = alike(graph, np.arange(24) // 6, 4, 4, stream(0, "cut"))
    assert sorted(client.tolist()) == [0, 1, 2, 3], "none of them is like another"


def test_more_clients_than_mixtures_of_classes():
    with pytest.raises(AtollError, match="have 3 different mixtures of classes, fewer than 4"):
        LouvainPlus(clients=4).cut(cliques(6, 8), stream(0, "cut"))


def test_more_clients_than_parts():
    with pytest.raises(AtollError, match=r"partition\.parts is 3, fewer than 4 clients"):
        MetisPlus(clients=4, parts=3).cut(cliques(6, 8), stream(0, "cut"))
