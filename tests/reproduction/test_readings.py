"""Several readings of one published number, and what is said of cells that are outside."""

import pytest
from typer.testing import CliRunner

from atoll.cli import app
from atoll.errors import AtollError
from atoll.reproduction.recipe import load_recipe, recipe_names
from made_up_paper import NAME, kept_cells, reproduce

READINGS = """
[readings]
rows = { other = "small" }
"""
REMARKS = """
[[outside]]
columns = ["local"]
because = "the paper's graph
has 5 nodes more."

[[outside]]
because = "Two rates were tried."
explained = false
"""


def test_a_row_may_be_another_reading_of_the_same_numbers(paper):
    paper.write()
    paper.path.write_text(paper.path.read_text() + READINGS)
    recipe = load_recipe(NAME)
    numbers = {(t.row, t.column): recipe.number(t) for t in recipe.targets}
    assert numbers["other", "local"] == numbers["small", "local"] == (NAME, "small", "local")
    assert numbers["small", "fed-avg"] == (NAME, "small", "fed-avg")


def test_numbers_of_another_recipe(paper):
    paper.write()
    paper.path.write_text(paper.path.read_text() + READINGS + 'table = "nobody/table-7"\n')
    recipe = load_recipe(NAME)
    assert recipe.number(recipe.targets[0]) == ("nobody/table-7", "small", "local")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (READINGS.replace("other =", "another ="), "another"),
        ('[readings]\nrows = "other"\n', "readings.rows"),
        (REMARKS.replace('"local"', '"lokal"'), "lokal"),
        (REMARKS.replace("because", "reason"), "reason"),
    ],
)
def test_what_is_not_there_is_named(paper, text, named):
    paper.write()
    paper.path.write_text(paper.path.read_text() + text.replace("graph\nhas", "graph has"))
    with pytest.raises(AtollError, match=named):
        load_recipe(NAME)


def test_the_page_says_what_was_found_and_the_index_counts_it(paper, tmp_path):
    """All three cells are 900 off: one number of two readings with a reason, one without."""
    paper.write(tolerance=1.0, paper=-900.0)
    text = paper.path.read_text().replace("tolerance = { local = 100.0 }", "")
    paper.path.write_text(text + READINGS + REMARKS.replace("graph\nhas", "graph has"))
    assert reproduce().exit_code == 1
    small, fed_avg, other = kept_cells()
    page = (tmp_path / "results/nobody/table-1.md").read_text()
    both = "; ".join(f"{c.row} local {c.ours:.2f} (-900.00)" for c in (small, other))
    assert f"- {both}. the paper's graph has 5 nodes more.\n" in page
    unknown = "not explained by anything that was measured. Two rates were tried."
    assert f"- small fed-avg {fed_avg.ours:.2f} (-900.00): {unknown}\n" in page
    CliRunner().invoke(app, ["reproduce"])
    index = (tmp_path / "results/README.md").read_text()
    assert "| nobody | 3 | 3 | 2 | 0 | 1 | 2 | 2 | 1 | 0 | 1 |\n" in index


def test_a_number_is_outside_only_if_every_reading_is(paper, tmp_path):
    """The other row allows 100 points and has 20 to 100 of the paper's 50."""
    paper.write(tolerance=0.0001)
    paper.path.write_text(paper.path.read_text() + READINGS)
    reproduce("--column", "local")
    CliRunner().invoke(app, ["reproduce"])
    index = (tmp_path / "results/README.md").read_text()
    assert "| nobody | 2 | 1 | 0 | 0 | 1 | 1 | 0 | 0 | 0 | 0 |\n" in index


def test_a_difference_smaller_than_the_scatter_over_seeds_is_told_apart(paper, tmp_path):
    paper.write()
    reproduce("--row", "small", "--column", "local", "--seeds", "3")
    (cell,) = kept_cells()
    assert cell.interval > 0.02
    paper.write(tolerance=0.01, paper=round(cell.ours - cell.interval / 2, 4))
    CliRunner().invoke(app, ["reproduce"])
    page = (tmp_path / "results/nobody/table-1.md").read_text()
    assert f"± {cell.interval:.2f} over 3 seeds): the paper's number lies in the 95 %" in page
    index = (tmp_path / "results/README.md").read_text()
    assert "| nobody | 1 | 1 | 0 | 1 | 0 | 1 | 1 | 0 | 1 | 0 |\n" in index


def test_readings_of_one_number_have_the_same_number_beside_them():
    published = {}
    for name in recipe_names():
        recipe = load_recipe(name)
        for target in recipe.targets:
            if target.paper is not None:
                number = published.setdefault(recipe.number(target), target.paper)
                assert number == target.paper, (name, target.row, target.column)
