"""Anchors are matched by id; the server learns numbers only."""

import numpy as np

from atoll.cohort import Cohort
from atoll.graph import make_graph
from atoll.partition.anchors import matched


def party(ids):
    n = len(ids)
    return make_graph(
        np.eye(n, 4, dtype=np.float32),
        np.zeros((2, 0), dtype=np.int64),
        np.zeros(n, dtype=np.int64),
        ids=np.array(ids),
    )


def test_rows_for_the_parties_and_numbers_for_the_server():
    parties = [party(["d", "x", "a"]), party(["a", "b", "d"]), party(["y", "b"])]
    found, numbers = matched(parties)
    assert [g.anchors.tolist() for g in found] == [[0, 2], [0, 1, 2], [1]]
    # d comes first, then a, then b.
    assert [n.tolist() for n in numbers] == [[0, 1], [1, 2, 0], [2]]
    assert Cohort(found).anchors.values.tolist() == [0, 2, 3, 4, 5, 7]


def test_an_entity_twice_at_one_party_is_no_anchor():
    found, numbers = matched([party(["a", "a"]), party(["b"])])
    assert [g.anchors.tolist() for g in found] == [[], []]
    assert [n.tolist() for n in numbers] == [[], []]


def test_a_part_of_a_party_has_no_anchors_until_matched_again():
    found, _ = matched([party(["a", "b"]), party(["b"])])
    assert found[0].subgraph(np.array([1])).anchors.tolist() == []
