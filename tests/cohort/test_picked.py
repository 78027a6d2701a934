"""Some of each client's small graphs, cut out of what all of them are packed into."""

import numpy as np
import pytest
import torch

from atoll.cohort import Cohort
from atoll.graph import SPLITS, nodes_of_graphs
from atoll.ops.structure import structure_of
from small_collections import collection_parties

CHOSEN_K = [np.array([4, 0, 6]), np.array([2]), np.array([0, 1, 2, 3, 4])]


def picked_and_made_anew(dense=False, shared=False):
    parties = collection_parties((7, 4, 5), dense=dense)
    if shared:
        parties = [parties[0].with_own(name=f"party {i}") for i in range(3)]
    whole = Cohort(parties, (3, 8, 1), dtype=torch.float64)
    anew = [
        g.subgraph(nodes_of_graphs(g.graph_of, c)) for g, c in zip(parties, CHOSEN_K, strict=True)
    ]
    return whole.picked(CHOSEN_K), whole.with_graphs(anew)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("dense", [False, True])
def test_operators_and_first_layers_are_those_of_the_chosen_graphs(dense, shared):
    picked, anew = picked_and_made_anew(dense, shared)
    rows = torch.randn(sum(anew.sizes), 3, dtype=torch.float64)
    assert picked.sizes == anew.sizes
    for name in ("gcn", "mean", "sum", "sum and own"):
        torch.testing.assert_close(picked.operator(name) @ rows, anew.operator(name) @ rows)
        torch.testing.assert_close(picked.operator(name).t @ rows, anew.operator(name).t @ rows)
    weight_K = torch.randn(3, anew.features, 4, dtype=torch.float64)
    for propagated, hops in (("", 1), ("gcn", 1), ("mean", 2)):
        torch.testing.assert_close(
            picked.linear(weight_K, propagated, hops), anew.linear(weight_K, propagated, hops)
        )


def test_labels_splits_and_read_outs_are_those_of_the_chosen_graphs():
    picked, anew = picked_and_made_anew()
    assert picked.clients == anew.clients == (3, 8, 1)
    assert torch.equal(picked.y, anew.y)
    for split in SPLITS:
        assert torch.equal(picked.rows(split), anew.rows(split))
    assert picked.collection.sizes == anew.collection.sizes == (3, 1, 5)
    for name in ("of", "batch", "size"):
        assert torch.equal(getattr(picked.collection, name), getattr(anew.collection, name))
    assert torch.equal(picked.edges, anew.edges)


def test_what_follows_from_each_small_graph_is_not_made_again():
    picked, anew = picked_and_made_anew()
    seen = []

    def structure(graph):
        seen.append(graph.nodes)
        return structure_of(graph, 4, 3)

    made = picked.inputs.by_graph("structure", torch.float64, structure)
    assert seen == [g.nodes for g in collection_parties((7, 4, 5))]
    theirs = anew.inputs.by_graph("structure", torch.float64, structure)
    torch.testing.assert_close(made, theirs, rtol=0, atol=0)
