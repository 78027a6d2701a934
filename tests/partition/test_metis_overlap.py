import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_graphs import cliques, edge_set, few_examples, graphs, id_set

from atoll.errors import AtollError
from atoll.partition.metis_overlap import MetisOverlap
from atoll.rng import stream


def test_ten_clients_are_five_halves_of_each_of_two_parts():
    graph = cliques(2, 20)
    parties = MetisOverlap(clients=10).cut(graph, stream(0, "cut"))
    assert [party.nodes for party in parties] == [10] * 10
    cliques_of_client = [set((party.ids // 20).tolist()) for party in parties]
    assert all(len(c) == 1 for c in cliques_of_client)
    assert cliques_of_client[:5] == [cliques_of_client[0]] * 5
    assert cliques_of_client[5:] == [cliques_of_client[5]] * 5
    assert cliques_of_client[0] != cliques_of_client[5]


@few_examples
@given(
    graph=graphs(),
    samples=st.integers(1, 5),
    share=st.sampled_from([0.25, 0.5, 1.0]),
    seed=st.integers(0, 2**32),
)
def test_samples_of_one_part_overlap_and_parts_do_not(graph, samples, share, seed):
    scheme = MetisOverlap(clients=2 * samples, samples=samples, share=share)
    parties = scheme.cut(graph, stream(seed, "cut"))
    first, second = parties[:samples], parties[samples:]
    for group in (first, second):
        sizes = {party.nodes for party in group}
        assert len(sizes) == 1, "every sample of a part has its share of the nodes"
    assert not set.union(*map(id_set, first)) & set.union(*map(id_set, second))
    for party in parties:
        held = id_set(party)
        assert edge_set(party) == {(u, v) for u, v in edge_set(graph) if u in held and v in held}


def test_samples_are_independent():
    # A node of a part is in none of five halves with probability 1/32.
    graph = cliques(2, 500)
    parties = MetisOverlap(clients=10).cut(graph, stream(0, "cut"))
    covered = len(set.union(*map(id_set, parties)))
    assert covered / graph.nodes == pytest.approx(31 / 32, abs=0.02)
    first, second = (id_set(party) for party in parties[:2])
    assert len(first & second) / len(first) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": 12}, "no multiple of partition.samples"),
        ({"share": 0.0}, "partition.share is 0.0"),
        ({"share": 1.5}, "partition.share is 1.5"),
        ({"samples": 0}, "partition.samples is 0"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(AtollError, match=message):
        MetisOverlap(**options)


def test_a_part_too_small_to_sample():
    scheme = MetisOverlap(clients=10, share=0.01)
    with pytest.raises(AtollError, match="too few to sample"):
        scheme.cut(cliques(2, 10), np.random.default_rng(0))
