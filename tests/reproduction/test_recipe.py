"""From a recipe file to cells that can be run."""

import pytest

from atoll.errors import AtollError
from atoll.reproduction.recipe import load_recipe, recipe_folder


def test_settings_of_table_row_and_method_are_laid_over_each_other(paper):
    paper.write()
    recipe = load_recipe("nobody/table-1")
    cells = {(t.row, t.column): t for t in recipe.targets}
    assert set(cells) == {("small", "local"), ("small", "fed-avg"), ("other", "local")}
    experiment = cells["small", "fed-avg"].experiment(seed=4)
    assert experiment.method.registered_name == "fed-avg"
    assert experiment.method.fraction == 0.5
    assert (experiment.partition.clients, experiment.run.seed) == (3, 4)
    assert cells["other", "local"].experiment(0).partition.clients == 2
    assert cells["other", "local"].tolerance == 100.0


def test_a_row_may_set_one_column_apart(paper, tmp_path):
    paper.write()
    path = paper.path
    text = path.read_text()
    own = "methods = { fed-avg = { method = { fraction = 0.25 } } }\n"
    path.write_text(text.replace("[rows.small]\n", "[rows.small]\n" + own))
    cells = {(t.row, t.column): t for t in load_recipe("nobody/table-1").targets}
    assert cells["small", "fed-avg"].experiment(0).method.fraction == 0.25
    path.write_text(text.replace("[rows.small]\n", "[rows.small]\n" + own.replace("avg", "awg")))
    with pytest.raises(AtollError, match="fed-awg"):
        load_recipe("nobody/table-1")


def test_a_large_std_of_the_paper_widens_the_tolerance(paper, tmp_path):
    paper.write(tolerance=0.8)
    path = paper.path
    path.write_text("paper_stds = 2.0\n" + path.read_text())
    allowed = {
        t.column: t.tolerance for t in load_recipe("nobody/table-1").targets if t.row == "small"
    }
    assert allowed == {"local": 1.0, "fed-avg": 0.8}


def test_a_column_that_is_two_sided_deviates_above_too(paper):
    paper.write(above="fine")
    path = paper.path
    text = path.read_text()
    path.write_text('two_sided = ["local"]\n' + text)
    above = {(t.row, t.column): t.above for t in load_recipe("nobody/table-1").targets}
    assert above["small", "local"] == above["other", "local"] == "outside"
    assert above["small", "fed-avg"] == "fine"
    path.write_text('two_sided = ["locl"]\n' + text)
    with pytest.raises(AtollError, match="two_sided of nobody/table-1: 'locl'"):
        load_recipe("nobody/table-1")


@pytest.mark.parametrize("line", ["seeds = 0", "tolerance = -1.0", "paper_stds = -1.0"])
def test_numbers_out_of_bounds_are_named(paper, line):
    paper.path.write_text(f"title = 'x'\nsource = 'y'\n{line}\n[settings]\n[rows.a]\n")
    with pytest.raises(AtollError, match=rf"recipe\.{line.split()[0]} is .*must be at least"):
        load_recipe("nobody/table-1")


def test_a_recipe_without_rows_is_explained(paper, tmp_path):
    (paper.path).write_text("title = 'x'\nsource = 'y'\n")
    with pytest.raises(AtollError, match="no section 'settings'"):
        load_recipe("nobody/table-1")


@pytest.mark.parametrize(
    "name", sorted(str(p.relative_to(recipe_folder()).with_suffix(""))
                   for p in recipe_folder().glob("*/*.toml"))
)  # fmt: skip
def test_every_recipe_of_the_project_resolves(name):
    recipe = load_recipe(name)
    assert recipe.targets
    for target in recipe.targets:
        experiment = target.experiment(0)
        if recipe.study.trains and not target.figure and target.paper is not None:
            assert 0 < target.paper < 100
        assert experiment.run.seed == 0
