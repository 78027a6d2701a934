"""Settings that cells share are written once."""

import pytest

from atoll.reproduction.layers import layered

# Two datasets by two methods; the second method has an option that one cell sets apart.
TABLES = {
    ("cora", "avg"): {"data": {"name": "cora"}, "method": {"name": "avg"}, "run": {"rounds": 9}},
    ("cora", "prox"): {
        "data": {"name": "cora"},
        "method": {"name": "prox", "mu": 1.0},
        "run": {"rounds": 9},
    },
    ("photo", "avg"): {"data": {"name": "photo"}, "method": {"name": "avg"}, "run": {"rounds": 9}},
    ("photo", "prox"): {
        "data": {"name": "photo"},
        "method": {"name": "prox", "mu": 0.5},
        "run": {"rounds": 9},
    },
}


def test_each_value_is_in_the_widest_layer():
    layers = layered(TABLES)
    assert layers.shared == {"run": {"rounds": 9}}
    assert layers.rows == {"cora": {"data": {"name": "cora"}}, "photo": {"data": {"name": "photo"}}}
    assert layers.columns == {
        "avg": {"method": {"name": "avg"}},
        "prox": {"method": {"name": "prox"}},
    }
    assert layers.cells == {
        ("cora", "prox"): {"method": {"mu": 1.0}},
        ("photo", "prox"): {"method": {"mu": 0.5}},
    }


@pytest.mark.parametrize("left_out", [None, *TABLES])
def test_together_the_layers_are_the_tables(left_out):
    tables = {place: table for place, table in TABLES.items() if place != left_out}
    layers = layered(tables)
    assert {place: layers.at(place) for place in tables} == tables


def test_a_value_of_another_type_is_another_value():
    tables = {("a", "x"): {"run": {"seed": 1}}, ("b", "x"): {"run": {"seed": True}}}
    layers = layered(tables)
    assert layers.shared == {}
    assert layers.at(("b", "x"))["run"]["seed"] is True


def test_nothing_is_written_twice_for_a_row_or_column_of_one_cell():
    tables = {
        ("cora", "avg"): {"data": {"name": "cora"}, "method": {"name": "avg"}},
        ("photo", "prox"): {"data": {"name": "photo"}, "method": {"name": "prox"}},
    }
    layers = layered(tables)
    assert layers.rows == {} or layers.columns == {}
    assert layers.cells == {}
    assert {place: layers.at(place) for place in tables} == tables
