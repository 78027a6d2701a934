"""Batches of each client's own points."""

import torch

from atoll.cohort import Cohort
from atoll.methods.gfl_appnp.batches import batch_weights, training_points, weighted_loss
from atoll.rng import CohortRng
from small_federations import community_parties


def test_training_points_are_the_training_nodes_alone():
    parties = community_parties((12, 9))
    points = training_points(Cohort(parties))
    assert points.sizes == tuple(int(g.train.sum()) for g in parties)
    assert all(g.train.all() for g in points.graphs)


def test_each_step_draws_a_batch_of_every_client():
    points = training_points(Cohort(community_parties((12, 9, 20))))
    weights = batch_weights(points, 3, 50, CohortRng(0, points.clients, 1, "train"))
    for block in weights.split(points.sizes, dim=1):
        size = min(3, block.shape[1])
        assert ((block > 0).sum(1) == size).all()
        torch.testing.assert_close(block.sum(1), torch.ones(50))
    first = weights[:, : points.sizes[0]] > 0
    assert (first.any(0)).all()
    assert len({tuple(row) for row in first.tolist()}) > 1


def test_no_batch_means_the_mean_of_all():
    points = training_points(Cohort(community_parties((12, 9)), dtype=torch.float64))
    (weights,) = batch_weights(points, 0, 1, CohortRng(0, points.clients, 1, "train"))
    logits = torch.zeros(sum(points.sizes), 3, dtype=torch.float64)
    expected = torch.full((2,), 3.0, dtype=torch.float64).log()
    torch.testing.assert_close(weighted_loss(logits, points, weights), expected)
