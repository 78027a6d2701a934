import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_graphs import cliques, few_examples

from atoll.errors import AtollError
from atoll.partition.metis_imbalanced import MetisImbalanced
from atoll.rng import stream


def test_ten_clients_merge_twenty_parts_as_the_paper_does():
    assert MetisImbalanced(clients=10).parts_per_client() == [5, 3, 2, 2, 2, 2, 1, 1, 1, 1]


def test_sizes_follow_the_merges():
    parties = MetisImbalanced(clients=10).cut(cliques(20, 10), stream(3, "cut"))
    assert [round(party.nodes / 10) for party in parties] == [5, 3, 2, 2, 2, 2, 1, 1, 1, 1]


@few_examples
@given(clients=st.integers(1, 12), merged=st.lists(st.integers(1, 4), max_size=5).map(tuple))
def test_every_part_goes_to_one_client_and_every_client_gets_one(clients, merged):
    try:
        scheme = MetisImbalanced(clients=clients, merged=merged)
    except AtollError:
        over = sum(merged) > 2 * clients
        starved = 2 * clients - sum(merged) < clients - len(merged)
        assert over or starved or len(merged) >= clients
        return
    parts = scheme.parts_per_client()
    assert len(parts) == clients
    assert sum(parts) == 2 * clients
    assert min(parts) >= 1


@pytest.mark.parametrize("options", [{"clients": 5}, {"merged": (30,)}, {"merged": (0, 2)}])
def test_merges_that_do_not_fit(options):
    with pytest.raises(AtollError, match=r"partition\.merged"):
        MetisImbalanced(**options)
