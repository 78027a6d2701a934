"""How a paper's own method stands, on a table of three rows and three columns."""

import pytest

from atoll.errors import AtollError
from atoll.report.comparison import paired, standing
from atoll.reproduction import recipe as recipes
from atoll.reproduction.cells import Cell
from atoll.reproduction.recipe import load_recipe

RECIPE = """
title = "A made-up table"
source = "Nobody, 2026."
tolerance = 2.0
favourite = "ours"
[settings]
[methods.ours]
method = { name = "local" }
[methods.local]
[methods.fed-avg]
[rows.a]
paper = { ours = 80.0, local = 70.0, fed-avg = 60.0 }
[rows.b]
paper = { ours = 80.0, local = 70.0, fed-avg = 60.0 }
[rows.c]
paper = { ours = 80.0, local = 70.0, fed-avg = 60.0 }
"""


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    (tmp_path / "nobody").mkdir()
    (tmp_path / "nobody/table.toml").write_text(RECIPE)
    monkeypatch.setattr(recipes, "recipe_folder", lambda: tmp_path)
    return load_recipe("nobody/table")


def cell(recipe, row, column, *values):
    [target] = recipe.chosen([row], [column])
    return Cell(
        target=target,
        values=values,
        best_rounds=(1,) * len(values),
        seconds=1.0,
        settings={},
        environment={},
    )


def test_rows_run_whole_have_a_first_and_all_cells_are_held_against_the_paper(recipe):
    cells = [
        cell(recipe, "a", "ours", 81.0, 85.0),
        cell(recipe, "a", "local", 70.0, 72.0),  # differences 11 and 13
        cell(recipe, "a", "fed-avg", 57.0, 58.0),  # 2.5 below
        cell(recipe, "b", "ours", 78.0, 79.0),  # 1.5 below, and 1 below fed-avg in each seed
        cell(recipe, "b", "local", 68.0, 68.0),
        cell(recipe, "b", "fed-avg", 79.0, 80.0),
        cell(recipe, "c", "ours", 79.0, 79.0),  # run in part: 1 below, none to compare with
        cell(recipe, "c", "local", 70.0, 70.0),
    ]
    text = "\n".join(standing(recipe, cells))
    assert "`ours` is first in 1 of the 2 rows that were run whole." in text
    assert "- ours, at most 1.00 below: 2 of 3 cells; not b ours 78.50 ± 0.707 (80.00)." in text
    others = "- the others, at most 2.00 below: 4 of 5 cells; not a fed-avg 57.50 ± 0.707 (60.00)."
    assert others in text
    # b's fed-avg is 19.5 above the paper's, which turns the paper's lead of 10 into a loss.
    assert f"{others} Further above than is allowed below: 1." in text
    led = "+10.00 (local 70.00)"
    assert f"| a | 83.00 ± 2.83 | local 71.00 ± 1.41 | +12.00 ± 1.41 | {led} |" in text
    assert f"| b | 78.50 ± 0.707 | fed-avg 79.50 ± 0.707 | -1.00 ± 0.000 | {led} |" in text
    assert "| c |" not in text


def test_a_favourite_that_is_no_column_is_named(recipe, tmp_path):
    path = tmp_path / "nobody/table.toml"
    path.write_text(RECIPE.replace('favourite = "ours"', 'favourite = "theirs"'))
    with pytest.raises(AtollError, match="favourite of nobody/table: 'theirs'"):
        load_recipe("nobody/table")


PAIRS = RECIPE.replace(
    'favourite = "ours"',
    'compare = ["ours > local", "again > local", "ours > fed-avg"]\ncolumns = ["again"]',
).replace("[methods.local]", '[methods.again]\nmethod = { name = "local" }\n[methods.local]')


def test_a_pair_shows_our_difference_and_the_papers(recipe, tmp_path):
    """``again`` is a second reading of ``ours``, so the paper's difference is the same."""
    path = tmp_path / "nobody/table.toml"
    path.write_text(PAIRS + '[readings]\ncolumns = { again = "ours" }\n')
    recipe = load_recipe("nobody/table")
    cells = [
        cell(recipe, "a", "ours", 81.0, 85.0),
        cell(recipe, "a", "again", 70.0, 73.0),
        cell(recipe, "a", "local", 70.0, 72.0),
    ]
    text = "\n".join(paired(recipe, cells))
    assert "| a | ours > local | +12.00 ± 1.41 | 2 | 0.053 | +10.00 |" in text
    assert "| a | again > local | +0.500 ± 0.707 | 2 | 0.5 | +10.00 |" in text
    assert "fed-avg" not in text  # not run


def test_a_pair_that_the_paper_has_no_numbers_for_says_so(recipe, tmp_path):
    (tmp_path / "nobody/table.toml").write_text(PAIRS)
    recipe = load_recipe("nobody/table")
    cells = [cell(recipe, "a", "again", 70.0, 73.0), cell(recipe, "a", "local", 70.0, 72.0)]
    assert "| a | again > local | +0.500 ± 0.707 | 2 | 0.5 | - |" in paired(recipe, cells)
