"""The links that embeddings suggest, on graphs one can draw."""

import gc
import json
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import torch

from atoll.cohort import Cohort
from atoll.leaves import Ragged
from atoll.methods.fed_gala import augment
from atoll.methods.fed_gala.augment import augmented, best_links, mean_over_owners, with_links
from small_federations import community_parties, path_graph


def path(n):
    return path_graph(np.eye(n), [0] * n)


# Nodes 0 to 3 in a row; node 3 has the longest embedding, node 1 the second longest.
Z = torch.tensor([[1.0, 0.0], [3.0, 0.0], [2.0, 0.0], [4.0, 0.0]])


def test_an_anchor_is_linked_to_the_best_node_it_is_not_linked_to():
    """Node 0's best are 3, 1, 2; it has 1 already. Node 2 has 1 and 3: only 0 is left."""
    linked = path(4).adjacency
    rows = np.array([0, 2])
    assert best_links(Z[rows], rows, Z, 1, linked).tolist() == [[0, 3], [2, 0]]
    assert best_links(Z[rows], rows, Z, 2, linked).tolist() == [[0, 3], [0, 2], [2, 0]]


def test_to_the_letter_every_node_is_a_candidate():
    rows = np.array([0, 2, 3])
    assert best_links(Z[rows], rows, Z, 1).tolist() == [[0, 3], [2, 3], [3, 3]]


def test_the_query_decides_not_the_node_itself():
    turned = torch.tensor([[-1.0, 0.0]])
    assert best_links(turned, np.array([3]), Z, 1, path(4).adjacency).tolist() == [[3, 0]]


def test_an_anchor_linked_to_everything_gets_nothing():
    rows = np.array([1])
    assert best_links(Z[:3][rows], rows, Z[:3], 3, path(3).adjacency).tolist() == []
    assert best_links(Z[:0], np.zeros(0, dtype=np.int64), Z, 1).shape == (0, 2)


def test_blocks_change_nothing(monkeypatch):
    graph = community_parties((60,))[0]
    z = torch.from_numpy(np.random.default_rng(0).normal(size=(60, 5)))
    rows = np.arange(0, 60, 2)
    for count in (1, 4):
        whole = best_links(z[rows], rows, z, count, graph.adjacency)
        with monkeypatch.context() as small:
            small.setattr(augment, "_BLOCK_BYTES", 60 * 8 * 7)
            blocked = best_links(z[rows], rows, z, count, graph.adjacency)
        assert blocked.tolist() == whole.tolist()
        scores = z[rows] @ z.T
        for at, row in enumerate(rows):
            free = [j for j in range(60) if j != row and graph.adjacency[row, j] == 0]
            best = sorted(free, key=lambda j: -scores[at, j])[:count]
            assert [b for a, b in whole.tolist() if a == row] == best


def test_an_anchor_is_embedded_as_the_mean_over_its_owners():
    """Anchor 0 at three clients, anchor 1 at two, anchor 2 at one that answered."""
    sent = torch.tensor([[1.0], [5.0], [2.0], [6.0], [7.0], [3.0]])
    numbers = torch.tensor([0, 1, 0, 0, 1, 2])
    assert mean_over_owners(sent, numbers, 4).flatten().tolist() == [3.0, 6.0, 3.0, 0.0]


def test_added_links_go_both_ways_and_stand_once():
    longer = with_links(path(4), np.array([[0, 3], [3, 0], [0, 1], [2, 2]]))
    expected = {(0, 1), (1, 2), (2, 3), (0, 3)}
    assert longer.edges.shape[1] == 8
    assert {tuple(sorted(e)) for e in longer.edges.T.tolist()} == expected
    assert longer.undirected
    assert longer.adjacency.sum() == 8
    assert path(4).edges.shape[1] == 6


def test_a_cohort_is_augmented_once_and_anew_when_its_links_change():
    cohort = Cohort([path(3), path(4)])
    none = Ragged(torch.zeros((0, 2), dtype=torch.int64), (0, 0))
    one = Ragged(torch.tensor([[0, 3]]), (0, 1))
    other = Ragged(torch.tensor([[0, 2]]), (0, 1))
    assert augmented(cohort, none) is cohort
    first = augmented(cohort, one)
    assert augmented(cohort, Ragged(one.values.clone(), one.sizes)) is first
    assert first.graphs[0] is cohort.graphs[0]
    assert first.edges.shape[1] == cohort.edges.shape[1] + 2
    again = augmented(cohort, other)
    assert again is not first
    assert [3, 5] in again.edges.T.tolist()
    # The same pair at another client is another graph.
    moved = augmented(cohort, Ragged(other.values, (1, 0)))
    assert [0, 2] in moved.edges.T.tolist()


def test_what_is_remembered_goes_with_the_cohort():
    cohort = Cohort([path(4)])
    made = weakref.ref(augmented(cohort, Ragged(torch.tensor([[0, 3]]), (1,))))
    assert made() is not None
    del cohort
    gc.collect()
    assert made() is None


def test_memory_is_not_quadratic():
    """All scores of 10,000 anchors and 16,000 nodes would be 640 MB."""
    script = Path(__file__).parents[3] / "benchmarks" / "augment_memory.py"
    command = [sys.executable, str(script), "--here", "16000", "10000", "4", "1"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert found["links_added"] > 8_000
    assert found["megabytes_peak"] - found["megabytes_before"] < 250
