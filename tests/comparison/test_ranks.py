"""Corrections and ranks, against values of the literature and numbers worked out by hand."""

import itertools

import numpy as np
import pytest

from atoll.comparison.ranks import critical_difference, holm, ranking, ranks_of


def test_holm_multiplies_the_smallest_most_and_never_falls():
    # Sorted 0.01, 0.03, 0.04 become 3 * 0.01, 2 * 0.03 and max(0.06, 0.04).
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.5, None, 0.9]) == [1.0, None, 1.0]
    assert holm([]) == []


def test_the_best_has_rank_one_and_equals_share():
    scores = np.array([[3.0, 1.0, 2.0], [1.0, 1.0, 0.0]])
    assert ranks_of(scores).tolist() == [[1, 3, 2], [1.5, 1.5, 3]]
    assert ranks_of(scores, less_is_better=True).tolist() == [[3, 1, 2], [2.5, 2.5, 1]]


@pytest.mark.parametrize(("columns", "q"), [(3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)])
def test_critical_values_are_those_of_the_literature(columns, q):
    """Those of Demsar, Statistical Comparisons of Classifiers, JMLR 2006, Table 5."""
    root = (columns * (columns + 1) / (6 * 14)) ** 0.5
    assert critical_difference(columns, 14) / root == pytest.approx(q, abs=1e-3)


def test_nemenyi_of_two_columns_is_the_normal_quantile():
    # sqrt(2 * 3 / (6 * 25)) = 1/5, and q is 1.960.
    assert critical_difference(2, 25) == pytest.approx(1.95996 / 5, abs=1e-5)


def test_a_clear_winner_is_told_apart():
    rows = np.array([[10.0 + i, 5.0 + i / 2, 1.0 + i % 2] for i in range(10)])
    found = ranking(["a", "b", "c"], rows)
    assert found.mean == (1.0, 2.0, 3.0)
    # Friedman without ties: 12 n / (k (k + 1)) (sum of squared ranks - k (k + 1)^2 / 4) = 20.
    assert found.friedman == pytest.approx(np.exp(-10))  # chi-squared of 20, two degrees
    # All ten signs alike: 2 / 2^10, three tests.
    assert [p for _, _, p in found.wilcoxon] == pytest.approx([3 * 2 / 1024] * 3)
    # 2.343 sqrt(12 / 60) = 1.048: neighbours do not differ, the ends do.
    assert found.groups() == [(1.0, 2.0), (2.0, 3.0)]


def test_few_rows_have_ranks_and_no_test():
    found = ranking(["a", "b"], np.array([[1.0, 2.0]] * 5 + [[np.nan, 1.0]]))
    assert (found.rows, found.mean, found.critical, found.wilcoxon) == (5, (2.0, 1.0), None, ())


def test_columns_that_are_always_equal_have_no_p():
    found = ranking(["a", "b", "c"], np.ones((8, 3)))
    assert found.mean == (2.0, 2.0, 2.0)
    assert found.friedman is None
    assert {p for _, _, p in found.wilcoxon} == {None}


@pytest.mark.parametrize("n", [6, 9])
def test_wilcoxon_by_counting_all_signs(n):
    """The exact p of a small sample is the share of sign patterns that are as extreme."""
    rng = np.random.default_rng(n)
    gaps = rng.normal(0.8, 1.0, n)
    size = np.argsort(np.argsort(abs(gaps))) + 1
    sums = np.array(list(itertools.product([0, 1], repeat=n))) @ size
    low = min(size[gaps > 0].sum(), size[gaps < 0].sum())
    expected = min(1.0, 2 * (sums <= low).mean())
    [(_, _, p)] = ranking(["a", "b"], np.stack([gaps, np.zeros(n)], axis=1)).wilcoxon
    assert p == pytest.approx(expected)
