import numpy as np
import pytest
from test_episodes import labelled_graph

from atoll.errors import AtollError
from atoll.partition.label_domains import LabelDomains
from atoll.rng import stream


def test_clients_have_their_own_classes_and_all_new_ones():
    graph = labelled_graph(7, 40)
    parties = LabelDomains(clients=5, new_classes=2, labelled=6).cut(graph, stream(0, "cut"))
    assert len(parties) == 5
    for party in parties:
        new = party.y >= 5
        assert [int((m & ~new).sum()) for m in (party.train, party.val, party.test)] == [6, 6, 0]
        assert [int((m & new).sum()) for m in (party.train, party.val, party.test)] == [12, 0, 40]
        assert len(np.unique(party.y[party.train & ~new])) == 2
        own = party.train | party.val | party.test
        assert (party.y[own] == graph.y[own]).all()
        assert (party.y[~own] == -1).all()
        assert party.x is graph.x
    assert len({tuple(np.unique(p.y[p.val])) for p in parties}) > 1


def test_the_cut_follows_from_the_stream():
    graph = labelled_graph(6, 40)
    first, again, other = (
        LabelDomains(clients=3).cut(graph, stream(seed, "cut")) for seed in (0, 0, 1)
    )
    assert all((a.train == b.train).all() for a, b in zip(first, again, strict=True))
    assert any((a.train != b.train).any() for a, b in zip(first, other, strict=True))


def test_training_and_adapting_may_differ_in_labels():
    (party,) = LabelDomains(clients=1, labelled=10, adapted=2).cut(
        labelled_graph(7, 40), stream(0, "cut")
    )
    new = party.y >= 5
    assert [int((m & ~new).sum()) for m in (party.train, party.val)] == [10, 10]
    assert [int((m & new).sum()) for m in (party.train, party.test)] == [4, 40]


def test_a_negative_number_to_adapt_with():
    with pytest.raises(AtollError, match=r"partition\.adapted is -1"):
        LabelDomains(adapted=-1)


def test_a_rehearsal_leaves_the_new_classes_out():
    graph = labelled_graph(7, 40)
    parties = LabelDomains(clients=5, new_classes=2, labelled=6, rehearsal=True).cut(
        graph, stream(0, "cut")
    )
    for party in parties:
        assert party.classes == 5
        assert set(party.y[party.test]) == {3, 4}
        assert set(party.y[party.val]) < {0, 1, 2}
        own = party.train | party.val | party.test
        assert (graph.y[own] < 5).all()
        assert (party.y[own] == graph.y[own]).all()
