"""What noise is worth, by dp-accounting's accountants."""

import pytest

from atoll.privacy.accounting import affordable, epsilon_of, noise_for


def test_a_hundred_rounds_at_sigma_ten():
    assert epsilon_of(10.0, 100, 1e-5, "rdp") == pytest.approx(4.7285, abs=1e-4)


def test_privacy_loss_distributions_are_tighter():
    assert epsilon_of(10.0, 100, 1e-5, "pld") == pytest.approx(4.377, abs=5e-4)


def test_nothing_released_costs_nothing_and_no_noise_is_no_privacy():
    assert epsilon_of(1.0, 0, 1e-5) == 0.0
    assert epsilon_of(0.0, 1, 1e-5) == float("inf")


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_what_a_budget_affords_is_the_last_count_below_it(accountant):
    count = affordable(5.0, 4.0, 1e-5, accountant)
    assert epsilon_of(5.0, count, 1e-5, accountant) <= 4.0
    assert epsilon_of(5.0, count + 1, 1e-5, accountant) > 4.0


def test_the_noise_that_a_budget_needs():
    noise = noise_for(8.0, 100, 1e-5)
    assert 7.99 < epsilon_of(noise, 100, 1e-5) <= 8.0
    assert noise == pytest.approx(6.38, abs=0.01)
