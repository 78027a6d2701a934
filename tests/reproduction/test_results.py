"""Files of kept cells."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from atoll.errors import AtollError
from atoll.reproduction.recipe import load_recipe, recipe_names
from atoll.reproduction.results import load_cells, store_cells
from made_up_paper import kept_cells, reproduce

RESULTS = Path(__file__).parents[2] / "docs/results"
KEPT = [name for name in recipe_names() if (RESULTS / f"{name}.json").is_file()]


def test_a_file_has_a_line_per_cell_and_settings_once(paper, tmp_path):
    paper.write()
    assert reproduce().exit_code == 0
    text = (tmp_path / "results/nobody/table-1.json").read_text()
    document = json.loads(text)
    assert list(document) == ["shared", "rows", "columns", "cells"]
    assert document["shared"]["run"]["rounds"] == 3
    assert document["shared"]["environment"]["system"]
    assert document["columns"]["fed-avg"]["method"]["fraction"] == 0.5
    assert document["rows"]["other"]["partition"]["clients"] == 2
    cells = document["cells"]
    assert [(c["row"], c["column"]) for c in cells] == [
        ("small", "local"),
        ("small", "fed-avg"),
        ("other", "local"),
    ]
    assert set(cells[0]) == {"row", "column", "values", "seconds", "best_rounds"}
    assert text.count('{"row": ') == sum("values" in line for line in text.splitlines()) == 3


def test_what_is_kept_is_read_back(paper, tmp_path):
    paper.write_figure("curves")
    reproduce("--column", "alone", "--column", "early", "--seeds", "2")
    before = kept_cells()
    path = tmp_path / "results/nobody/table-1.json"
    text = path.read_text()
    path.unlink()
    store_cells(tmp_path / "results", load_recipe("nobody/table-1"), reversed(before))
    assert path.read_text() == text
    assert kept_cells() == before
    assert [len(cell.array) for cell in before if cell.column == "alone"] == [3, 3]


def test_cells_that_are_kept_at_the_same_moment_are_all_there(tmp_path):
    name = "fed-pub/table-4"
    recipe = load_recipe(name)
    cells = list(load_cells(RESULTS, recipe).values())[:24]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda cell: store_cells(tmp_path, recipe, [cell]), cells))
    assert list(load_cells(tmp_path, recipe).values()) == cells


@pytest.mark.parametrize("name", KEPT)
def test_results_of_the_project_are_in_this_form(name, tmp_path):
    recipe = load_recipe(name)
    store_cells(tmp_path, recipe, load_cells(RESULTS, recipe).values())
    assert (tmp_path / f"{name}.json").read_text() == (RESULTS / f"{name}.json").read_text()


def test_a_damaged_results_file_is_named_and_kept(paper, tmp_path):
    paper.write()
    (tmp_path / "results/nobody").mkdir(parents=True)
    kept = tmp_path / "results/nobody/table-1.json"
    kept.write_text("{")
    done = reproduce("--row", "small", "--seeds", "1")
    assert isinstance(done.exception, AtollError)
    assert "table-1.json" in str(done.exception)
    assert kept.read_text() == "{"
