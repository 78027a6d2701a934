"""Small graphs dealt out as they follow each other."""

from itertools import chain

import numpy as np
import pytest

from atoll.errors import AtollError
from atoll.partition import partitions
from atoll.partition.chunks import Chunks
from atoll.rng import stream
from small_collections import collection
from small_federations import community_parties

# Twelve rings, then eleven paths, told apart by their sizes.
WHOLE = collection([("ring", 3 + i) for i in range(12)] + [("path", 3 + i) for i in range(11)])


def graphs_of(party):
    """Which graphs of the whole a party holds."""
    return WHOLE.graph_of[party.ids[party.first_nodes]].tolist()


def test_runs_follow_each_other_and_the_rest_is_dealt_at_random():
    parties = Chunks(clients=4, block=3).cut(WHOLE, stream(0, "cut"))
    held = [graphs_of(party) for party in parties]
    assert [own[:3] for own in held] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert sorted(chain.from_iterable(held)) == list(range(23))
    assert [party.y[party.first_nodes][:3].tolist() for party in parties] == [[1, 1, 1]] * 4
    other = Chunks(clients=4, block=3).cut(WHOLE, stream(1, "cut"))
    assert [graphs_of(party) for party in other] != held


def test_without_runs_numbers_are_equal():
    parties = Chunks(clients=4, block=0).cut(WHOLE, stream(0, "cut"))
    assert sorted(len(graphs_of(party)) for party in parties) == [5, 6, 6, 6]
    assert sum(party.edge_count for party in parties) == WHOLE.edge_count


def test_fewer_graphs_than_runs_ask_for():
    parties = Chunks(clients=4).cut(WHOLE, stream(0, "cut"))
    assert [graphs_of(party)[:5] for party in parties] == [
        list(range(start, start + 5)) for start in (0, 5, 10, 15)
    ]


@pytest.mark.parametrize(
    ("scheme", "graph", "message"),
    [
        (Chunks(clients=24), WHOLE, "23 graphs and can't be dealt out to 24 clients"),
        (Chunks(clients=2), community_parties()[0], "is one graph, not a collection"),
        (partitions["metis"](clients=2), WHOLE, "'metis' would cut through; choose 'chunks'"),
    ],
)
def test_what_can_not_be_dealt_out(scheme, graph, message):
    with pytest.raises(AtollError, match=message):
        scheme.cut(graph, np.random.default_rng(0))
