"""Links and non-links of small graphs, and the loss of graph auto-encoders on them."""

from dataclasses import replace
from math import exp, log

import numpy as np
import pytest
import torch

from atoll.cohort import Cohort
from atoll.graph import make_graph
from atoll.rng import CohortRng
from atoll.tasks.pairs import (
    link_loss,
    link_scores,
    linked_pairs,
    positive_links,
    sample_negatives,
    unlinked_pairs,
)
from small_federations import community_parties, path_graph


def path(n):
    return path_graph(np.eye(n), [0] * n)


def complete(n):
    ends = np.argwhere(np.triu(np.ones((n, n)), 1)).T
    return make_graph(np.eye(n, dtype=np.float32), ends, np.zeros(n, dtype=np.int64), classes=1)


def draw(cohort, **options):
    return sample_negatives(cohort, CohortRng(0, cohort.clients, 1, "train"), **options)


def test_links_stand_once_in_the_rows_of_the_cohort():
    assert positive_links(Cohort([path(3), path(2)])).tolist() == [[0, 1, 3], [1, 2, 4]]


def test_a_directed_edge_is_a_link_of_its_own():
    one_way = replace(path(3), edges=np.array([[2, 0, 1], [0, 1, 1]]))
    assert linked_pairs(one_way).tolist() == [[2, 0], [0, 1]]


def test_as_many_negatives_as_positives_and_none_of_them_linked():
    cohort = Cohort(community_parties())
    positives, negatives = positive_links(cohort), draw(cohort)
    count = [
        torch.bincount(cohort.batch[p[0]], minlength=6).tolist() for p in (positives, negatives)
    ]
    assert count[0] == count[1]
    linked = {tuple(pair) for pair in cohort.edges.T.tolist()}
    assert not linked & {tuple(pair) for pair in negatives.T.tolist()}
    assert (negatives[0] != negatives[1]).all()
    assert (cohort.batch[negatives[0]] == cohort.batch[negatives[1]]).all()


def test_every_unlinked_pair_of_a_path_is_drawn_equally_often():
    """A path of four nodes lacks three undirected pairs: 0-2, 0-3 and 1-3."""
    pairs = unlinked_pairs(path(4), 6000, np.random.default_rng(0))
    found, count = np.unique(pairs, axis=1, return_counts=True)
    assert found.T.tolist() == [[0, 2], [0, 3], [1, 3], [2, 0], [3, 0], [3, 1]]
    assert count.min() > 900
    assert count.max() < 1100


def test_a_complete_graph_has_no_negatives_and_a_graph_without_edges_no_positives():
    lonely = path_graph(np.eye(1, 3), [0], classes=1)
    cohort = Cohort([complete(3), lonely])
    assert draw(cohort).shape == (2, 0)
    loss_K = link_loss(torch.zeros(4, 2), positive_links(cohort), draw(cohort), cohort)
    assert loss_K.tolist() == pytest.approx([log(2), 0.0])


def test_other_counts_can_be_asked_for():
    cohort = Cohort([path(4), path(5)])
    assert cohort.batch[draw(cohort, counts=[3, 7])[0]].tolist() == [0] * 3 + [1] * 7


def test_a_client_draws_the_same_alone():
    parties = community_parties()
    together, alone = draw(Cohort(parties)), draw(Cohort(parties[:1], [0]))
    assert together[:, : alone.shape[1]].equal(alone)


def test_the_loss_by_hand():
    """Two nodes linked with score 2, one pair not linked with score -1."""
    z = torch.tensor([[1.0, 1.0], [1.0, 1.0], [0.0, -1.0]])
    cohort = Cohort([path(3)])
    links, others = torch.tensor([[0], [1]]), torch.tensor([[0], [2]])
    assert link_scores(z, links).tolist() == [2.0]
    assert link_scores(z, others).tolist() == [-1.0]
    expected = (log(1 + exp(-2)) + log(1 + exp(-1))) / 2
    assert link_loss(z, links, others, cohort).tolist() == pytest.approx([expected])
