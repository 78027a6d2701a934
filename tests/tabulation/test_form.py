"""The form of a study: axes, labels, and mistakes that are named."""

import pytest

from atoll.errors import AtollError
from atoll.tabulation.form import make_form, read_form
from atoll.tabulation.plan import folder_name

SMALL = {
    "settings": {"data": "patients", "run": {"rounds": 3}},
    "columns": {"method": ["local", "fed-avg"]},
}


def labels(entries):
    return [entry.label for entry in entries]


def test_a_list_of_names_and_a_setting_are_crossed():
    form = make_form("s", SMALL | {"rows": {"data": ["digits", "patients"],
                                            "partition": {"clients": [2, 4]}}})  # fmt: skip
    assert labels(form.rows) == [
        "digits, clients=2", "digits, clients=4", "patients, clients=2", "patients, clients=4",
    ]  # fmt: skip
    assert labels(form.columns) == ["local", "fed-avg"]
    assert form.cells["patients, clients=4", "fed-avg"] == {
        "data": {"name": "patients"},
        "partition": {"clients": 4},
        "run": {"rounds": 3},
        "method": {"name": "fed-avg"},
    }
    assert [(row.x, row.rest) for row in form.rows[1:3]] == [(4.0, "digits"), (2.0, "patients")]


def test_a_setting_may_be_quoted_and_a_value_a_table():
    form = make_form("s", {
        "settings": {"data": "patients"},
        "rows": {"optimizer.lr": [0.01, 0.1]},
        "columns": {"method": ["local", {"name": "fed-prox", "mu": 0.5}]},
    })  # fmt: skip
    assert labels(form.rows) == ["lr=0.01", "lr=0.1"]
    assert labels(form.columns) == ["local", "fed-prox mu=0.5"]
    assert form.cells["lr=0.1", "fed-prox mu=0.5"]["method"] == {"name": "fed-prox", "mu": 0.5}


def test_named_columns_are_called_after_their_method_and_the_later_wins():
    form = make_form("s", {
        "settings": {"data": "patients", "model": {"hidden": 8}},
        "rows": {"wide": {"model": {"hidden": 16}}, "usual": {}},
        "columns": {"local": {}, "mild": {"method": {"name": "fed-prox", "mu": 0.01}},
                    "narrow": {"method": "fed-avg", "model": {"hidden": 2}}},
        "cells": {"wide": {"mild": {"method": {"mu": 0.5}}}},
    })  # fmt: skip
    hidden = {place: table["model"]["hidden"] for place, table in form.cells.items()}
    assert hidden["wide", "local"] == 16
    assert hidden["usual", "local"] == 8
    assert hidden["wide", "narrow"] == 2
    assert form.cells["wide", "mild"]["method"] == {"name": "fed-prox", "mu": 0.5}
    assert form.cells["usual", "mild"]["method"] == {"name": "fed-prox", "mu": 0.01}
    assert form.cells["usual", "local"]["method"] == {"name": "local"}


def test_a_named_column_crossed_with_a_setting_is_called_after_its_method():
    columns = {"local": {}, "mild": {"method": "fed-prox"}, "optimizer": {"lr": [0.1, 0.2]}}
    form = make_form("s", SMALL | {"columns": columns})
    assert labels(form.columns) == [
        "local, lr=0.1", "local, lr=0.2", "mild, lr=0.1", "mild, lr=0.2",
    ]  # fmt: skip
    names = [form.cells["all", label]["method"]["name"] for label in labels(form.columns)]
    assert names == ["local", "local", "fed-prox", "fed-prox"]


def test_a_file_is_named_after_itself(tmp_path):
    path = tmp_path / "pulls.toml"
    path.write_text('seeds = 2\n[rows]\ndata = ["patients"]\n[columns]\nmethod = ["local"]\n')
    form = read_form(path)
    assert (form.name, form.header.seeds, list(form.cells)) == ("pulls", 2, [("patients", "local")])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"sedes": 3}, "unknown config key 'study.sedes': did you mean 'study.seeds'?"),
        ({"run": {"rounds": 3}}, r"'s' has a section \[run\], as the config of one run has; in a "
         r"study, what all runs share stands under \[settings\]"),
        ({"seeds": 0}, "study.seeds is 0; it must be at least 1"),
        ({"seeds": "5"}, "study.seeds is '5', a str; it must be int"),
        ({"baseline": "locl"}, "unknown column as study.baseline: 'locl': did you mean 'local'?"),
        ({"plot": "pie"}, "unknown value of study.plot: 'pie'"),
        ({"rows": {"data": "digits"}}, "rows.data is 'digits'; write a list of values"),
        ({"rows": {"data": []}}, r"rows.data is \[\]; write a list of values"),
        ({"rows": {}}, "rows is empty"),
        ({"rows": ["digits"]}, r"rows is \['digits'\]; write a section"),
        ({"rows": {"partition": {"clients": 5}}}, "rows.partition.clients is 5; write a list"),
        ({"rows": {"a": {"dta": "digits"}}}, "unknown section in rows.a: 'dta'"),
        ({"rows": {"a": {"run": 5}}}, "rows.a.run is 5; write a table"),
        ({"rows": {"data": ["digits", "digits"]}}, "two of the rows are called 'digits'"),
        ({"rows": {"data": ["digitz"]}}, "row 'digitz', column 'local': unknown dataset 'digitz'"),
        ({"settings": {"data": "patients", "method": {"mu": 3}}},
         "row 'all', column 'local': unknown config key 'method.mu'"),
        ({"columns": {"fed-agv": {}}}, "no method is named for the column 'fed-agv', nor is it "
         "called after one .did you mean 'fed-avg'"),
        ({"cells": {"al": {}}}, "unknown row in cells: 'al': did you mean 'all'"),
        ({"cells": {"all": {"lokal": {}}}}, "unknown column in cells.all: 'lokal'"),
        ({"settings": 3}, "settings is 3; write settings"),
    ],
)  # fmt: skip
def test_mistakes_name_the_key(change, says):
    with pytest.raises(AtollError, match=says):
        make_form("s", SMALL | change)


def test_labels_become_folders():
    assert folder_name("digits, clients=5") == "digits-clients=5"
    assert folder_name("../x y") == "x-y"
    assert folder_name("Köln") == "Köln"
