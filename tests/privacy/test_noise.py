"""Noise is standard normal, repeatable in a simulation and never at a site."""

import numpy as np
import pytest
import torch
from scipy import stats

from atoll.privacy.noise import KeyedCoins, SystemCoins
from atoll.rng import CohortRng

RNG = CohortRng(3, (4, 7), round=2, step="train#0")


@pytest.mark.parametrize("coins", [KeyedCoins(), SystemCoins()])
def test_numbers_are_standard_normal(coins):
    numbers = coins.normal(RNG, 0, "model/w", 50_000)
    assert stats.kstest(numbers, "norm").pvalue > 1e-4
    assert abs(np.std(numbers) - 1) < 0.02


def test_keyed_noise_depends_on_seed_client_round_step_and_name_alone():
    coins = KeyedCoins()
    first = coins.normal(RNG, 1, "model/w", 5)
    alone = CohortRng(3, (7,), round=2, step="train#0")
    assert np.array_equal(first, coins.normal(alone, 0, "model/w", 5))
    for other in (
        coins.normal(RNG, 0, "model/w", 5),
        coins.normal(RNG, 1, "model/b", 5),
        coins.normal(CohortRng(4, (7,), 2, "train#0"), 0, "model/w", 5),
        coins.normal(CohortRng(3, (7,), 3, "train#0"), 0, "model/w", 5),
        coins.normal(CohortRng(3, (7,), 2, "train#1"), 0, "model/w", 5),
    ):
        assert not np.array_equal(first, other)


def test_a_sites_noise_is_never_the_same():
    coins = SystemCoins()
    assert not np.array_equal(coins.normal(RNG, 0, "w", 5), coins.normal(RNG, 0, "w", 5))


def test_blocks_have_their_shapes_and_type():
    shapes = [torch.Size((2, 3)), torch.Size((0, 3))]
    made = KeyedCoins().blocks(RNG, "w", shapes, torch.float32)
    assert [block.shape for block in made] == shapes
    assert made[0].dtype == torch.float32
