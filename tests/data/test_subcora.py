import os
from functools import cache

import numpy as np
import pytest
from scipy import sparse

from atoll.data.subcora import SubCora
from atoll.errors import AtollError
from atoll.graph import Graph

real_data = pytest.mark.skipif(
    not os.environ.get("ATOLL_DATA"), reason="set ATOLL_DATA to the folder of real datasets"
)


@cache
def subcora(seed: int) -> Graph:
    return SubCora(seed=seed).load()


@real_data
@pytest.mark.parametrize("seed", [0, 1])
def test_three_hundred_papers_around_a_training_set(seed):
    graph = subcora(seed)
    assert (graph.nodes, graph.features, graph.classes) == (300, 1433, 7)
    sizes = [int(m.sum()) for m in (graph.train, graph.val, graph.test)]
    assert 30 <= sizes[0] <= 50
    assert sizes[1] == sizes[0]
    assert sum(sizes) == 300
    counts = np.bincount(graph.y[graph.train], minlength=7)
    assert counts.min() >= 1
    assert counts.std() <= 2.5
    among = graph.subgraph(np.flatnonzero(graph.train)).adjacency
    assert sparse.csgraph.connected_components(among, directed=False)[0] == 1


@real_data
def test_every_node_is_within_two_steps_of_training_in_cora():
    from atoll.data import datasets

    graph = subcora(0)
    cora = datasets["cora"](largest_component=False, normalise=False).load()
    reach = np.isin(cora.ids, graph.ids[graph.train]).astype(float)
    for _ in range(2):
        reach += cora.adjacency @ reach
    assert (reach[np.isin(cora.ids, graph.ids)] > 0).all()
    assert (graph.x != cora.x[np.searchsorted(cora.ids, graph.ids)]).nnz == 0


@real_data
def test_the_seed_picks_the_subgraph():
    assert np.array_equal(SubCora().load().ids, subcora(0).ids)
    assert not np.array_equal(subcora(0).ids, subcora(1).ids)


def test_room_for_test_nodes():
    with pytest.raises(
        AtollError, match=r"data.nodes is 100; it must be above 100 \(so that nodes are left"
    ):
        SubCora(nodes=100)
