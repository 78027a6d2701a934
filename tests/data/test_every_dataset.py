"""What holds for the options of every registered dataset, and of the split."""

import pytest

from atoll.data import datasets
from atoll.data.split import Split
from option_bounds import numbers_without_bounds, outside, refused_in_one_sentence

# Any number will do: a seed names a random stream, and a negative signal is an avoidance of links.
UNBOUNDED = {"seed", "graph_seed", "community_signal"}


@pytest.mark.parametrize(
    ("name", "option", "value", "text"),
    [(name, *beyond) for name in datasets for beyond in outside(datasets[name])],
)
def test_a_value_out_of_bounds_is_refused(name, option, value, text):
    refused_in_one_sentence("data", datasets[name], option, value, text)


@pytest.mark.parametrize("name", list(datasets))
def test_numbers_have_bounds(name):
    assert numbers_without_bounds(datasets[name]) <= UNBOUNDED


@pytest.mark.parametrize(("option", "value", "text"), list(outside(Split)))
def test_a_split_out_of_bounds_is_refused(option, value, text):
    refused_in_one_sentence("split", Split, option, value, text)


def test_all_numbers_of_a_split_have_bounds():
    assert numbers_without_bounds(Split) == set()
