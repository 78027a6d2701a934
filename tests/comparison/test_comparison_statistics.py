"""Numbers small enough for paper: with three seeds Student's t has a closed form."""

import math

import pytest

from atoll.comparison.statistics import difference, half_interval, p_value

T = 4.302652729911275  # the 97.5 % quantile with two degrees of freedom


def test_a_mean_with_its_interval_and_p():
    found = difference([0.1, 0.2, 0.3])  # mean 0.2, std 0.1, t = 2 sqrt(3)
    assert found.seeds == 3
    assert found.mean == pytest.approx(0.2)
    assert found.low == pytest.approx(0.2 - T * 0.1 / math.sqrt(3))
    assert found.high == pytest.approx(0.2 + T * 0.1 / math.sqrt(3))
    # With two degrees of freedom p = 1 - t / sqrt(2 + t^2), and t^2 = 12.
    assert found.p == pytest.approx(1 - math.sqrt(12 / 14))
    assert found.verdict() == "unclear"


@pytest.mark.parametrize(
    ("gaps", "verdict"),
    [
        ([0.05, 0.05, 0.06], "join"),
        ([-0.10, -0.11, -0.12], "stay"),
        ([-0.1, 0.1, 0.2], "unclear"),
        ([0.0, 0.0, 0.0], "unclear"),
        ([0.5, 0.5], "unclear"),
        ([], "unclear"),
    ],
)
def test_the_verdict_is_where_the_interval_lies(gaps, verdict):
    assert difference(gaps).verdict() == verdict
    opposite = {"join": "stay", "stay": "join", "unclear": "unclear"}
    assert difference(gaps).verdict(less_is_better=True) == opposite[verdict]


def test_too_few_seeds_have_a_difference_but_no_interval():
    found = difference([0.1, 0.3])
    assert found.mean == pytest.approx(0.2)
    assert (found.low, found.high, found.p) == (None, None, None)
    assert difference([]).mean is None


def test_equal_differences_have_no_p():
    assert p_value([0.25, 0.25, 0.25]) is None
    assert difference([0.25, 0.25, 0.25]).low == 0.25
    assert math.isnan(half_interval([0.25]))
