from dataclasses import replace

import numpy as np
import pytest
import torch

from atoll.cohort import Cohort
from atoll.cohort.sampled import Sampled, sample_of
from atoll.graph import make_graph
from small_federations import community_parties


def star():
    """Node 0 in the middle of 1 to 4; 4 has a further neighbour, 5."""
    edges = np.array([[0, 0, 0, 0, 4], [1, 2, 3, 4, 5]])
    return make_graph(np.eye(6, dtype=np.float32), edges, np.zeros(6, dtype=int), classes=2)


def test_targets_come_first_and_neighbours_hop_by_hop():
    sample = sample_of(star(), np.array([0]), (0, 0), np.random.default_rng(0))
    assert sample.nodes.tolist() == [0, 1, 2, 3, 4, 5]
    pairs = set(zip(sample.target.tolist(), sample.source.tolist(), strict=True))
    # All that lead to 0 and to its neighbours; none that lead to 5, which is the last hop.
    assert pairs == {(0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (2, 0), (3, 0), (4, 0), (4, 5)}


def test_a_drawn_edge_counts_for_those_that_were_not():
    sample = sample_of(star(), np.array([0]), (2,), np.random.default_rng(0))
    inputs = Sampled([sample], torch.float64, exact=True)
    row = inputs.operator("gcn").csr.to_dense()[0]
    # Degrees with loops are 5 for the middle, 2 for a leaf and 3 for node 4.
    degrees = np.array([5, 2, 2, 2, 3, 2])[sample.nodes]
    expected = [1 / 5] + [2 / np.sqrt(5 * d) for d in degrees[1:]]
    assert row.tolist() == pytest.approx(expected)
    assert inputs.operator("mean").csr.to_dense()[0].tolist() == pytest.approx([0, 0.5, 0.5])
    assert inputs.operator("sum").csr.to_dense()[0].tolist() == pytest.approx([0, 2, 2])
    assert inputs.edges.tolist() == [[1, 2], [0, 0]]


@pytest.mark.parametrize("name", ["gcn", "mean", "sum"])
def test_the_mean_over_draws_is_the_whole_graphs_operator(name):
    graph = community_parties((31,))[0]
    graph = replace(graph, weights=1.0 + np.arange(graph.edges.shape[1]) % 3)
    whole = Cohort([graph], dtype=torch.float64).operator(name)
    h = torch.from_numpy(np.random.default_rng(1).normal(size=(graph.nodes, 2)))
    targets, stream = np.array([0, 4, 7]), np.random.default_rng(0)
    draws = []
    for _ in range(3000):
        sample = sample_of(graph, targets, (2,), stream)
        inputs = Sampled([sample], torch.float64, exact=True)
        draws.append((inputs.operator(name) @ h[sample.nodes])[: len(targets)])
    found, expected = torch.stack(draws), (whole @ h)[targets]
    error = found.std(0) / len(draws) ** 0.5
    assert ((found.mean(0) - expected).abs() < 5 * error + 1e-12).all()


@pytest.mark.parametrize("dense", [False, True])
def test_exact_first_layers_are_the_whole_graphs_and_others_are_sampled(dense):
    graph = community_parties((31,), dense=dense)[0]
    weight = torch.from_numpy(np.random.default_rng(2).normal(size=(1, graph.features, 3)))
    whole = Cohort([graph], dtype=torch.float64).linear(weight, propagated="gcn")
    sample = sample_of(graph, np.array([3, 5]), (2, 1), np.random.default_rng(0))
    exact = Sampled([sample], torch.float64, exact=True).linear(weight, propagated="gcn")
    torch.testing.assert_close(exact, whole[sample.nodes])
    sampled = Sampled([sample], torch.float64, exact=False)
    found = sampled.linear(weight, propagated="gcn")
    torch.testing.assert_close(found, sampled.operator("gcn") @ sampled.linear(weight))


def test_a_client_without_targets_is_one_node_and_draws_nothing():
    stream = np.random.default_rng(0)
    sample = sample_of(star(), np.zeros(0, dtype=int), (2, 2), stream)
    assert (sample.nodes.tolist(), len(sample.entries)) == ([0], 0)
    assert stream.random() == np.random.default_rng(0).random()
