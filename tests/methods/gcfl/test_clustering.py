from itertools import combinations

import numpy as np
import pytest
import torch

from atoll.methods.gcfl.clustering import dtw_distances, min_cut


def test_two_tight_pairs_are_cut_apart():
    """0 and 2 belong together, and 1 and 3; everything between the pairs is weak."""
    weights = torch.tensor(
        [[0.0, 0.1, 2.0, 0.1], [0.1, 0.0, 0.1, 2.0], [2.0, 0.1, 0.0, 0.1], [0.1, 2.0, 0.1, 0.0]]
    )
    assert min_cut(weights).tolist() == [False, True, False, True]


def test_two_clients_are_one_each():
    assert min_cut(torch.tensor([[1.0, 0.0], [0.0, 1.0]])).tolist() == [False, True]


def test_no_cut_is_lighter():
    weights = torch.rand(7, 7, generator=torch.Generator().manual_seed(0))
    weights = weights + weights.T
    side = min_cut(weights)
    lightest = min(
        float(weights[list(part)][:, [i for i in range(7) if i not in part]].sum())
        for size in range(1, 7)
        for part in combinations(range(7), size)
    )
    assert float(weights[side][:, ~side].sum()) == pytest.approx(lightest)
    assert not side[0]


def test_warping_forgives_a_shift_in_time():
    """The peak comes a round later: no distance. A higher peak by 3 costs 3."""
    sequences = torch.tensor([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 4.0, 0.0, 0.0]])
    expected = torch.tensor([[0.0, 0.0, 3.0], [0.0, 0.0, 3.0], [3.0, 3.0, 0.0]])
    torch.testing.assert_close(dtw_distances(sequences), expected)


def test_distances_are_those_of_the_textbook_recursion():
    sequences = np.random.default_rng(1).normal(size=(5, 6))

    def plain(a, b):
        if len(a) == 0 and len(b) == 0:
            return 0.0
        if len(a) == 0 or len(b) == 0:
            return np.inf
        before = min(plain(a[:-1], b), plain(a, b[:-1]), plain(a[:-1], b[:-1]))
        return (a[-1] - b[-1]) ** 2 + before

    expected = [[plain(a, b) ** 0.5 for b in sequences] for a in sequences]
    found = dtw_distances(torch.from_numpy(sequences))
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))
