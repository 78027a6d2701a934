"""Ranks and tests of a board, worked out by hand."""

import pytest
from test_search import BOARD

from atoll.report.leaderboard import leaderboard
from atoll.reproduction.cells import Cell
from atoll.reproduction.recipe import load_recipe
from atoll.reproduction.standings import standings
from made_up_paper import NAME


@pytest.fixture
def recipe(paper):
    paper.path.write_text(BOARD)
    return load_recipe(NAME)


def cell(recipe, row, column, values):
    target = next(t for t in recipe.targets if (t.row, t.column) == (row, column))
    return Cell(
        target=target,
        values=tuple(values),
        best_rounds=(1,) * len(values),
        seconds=1.0,
        settings={},
        environment={},
        budget=target.budget.plain(),
        chosen={"optimizer.lr": 0.02},
        val=0.9,
        costs={"bytes_up": 2e6, "bytes_down": 1e6, "seconds": 0.5},
    )


@pytest.fixture
def cells(recipe):
    return [
        cell(recipe, "three", "local", [80, 81, 82]),
        cell(recipe, "three", "fed-avg", [90, 92, 91]),
        cell(recipe, "three", "centralized", [95, 95, 95]),
        cell(recipe, "two", "local", [70, 71, 72]),
    ]


def test_whole_rows_are_ranked_and_references_are_not(recipe, cells):
    found = standings(recipe, cells)
    assert found.whole_rows == ["three"]
    assert found.missing("two") == ["fed-avg", "centralized"]
    assert found.ranks("three") == {"fed-avg": 1.0, "local": 2.0}
    assert found.ranks("two") == {}
    assert found.broad_rows == ["three"]  # of the other one cell in three
    assert found.mean_rank == {"local": 2.0, "fed-avg": 1.0}
    assert [s.cell.column for s in found.of_row("three")] == ["centralized", "fed-avg", "local"]


def test_mean_ranks_are_of_those_who_are_in_all_rows_that_are_half_run(recipe, cells):
    """The second row lacks the reference, and is not whole: it still counts."""
    found = standings(recipe, [*cells, cell(recipe, "two", "fed-avg", [60, 61, 62])])
    assert found.whole_rows == ["three"]
    assert found.broad_rows == ["three", "two"]
    assert found.mean_rank == {"local": 1.5, "fed-avg": 1.5}
    without = standings(recipe, [*cells, cell(recipe, "two", "centralized", [60, 61, 62])])
    assert without.broad_rows == ["three", "two"]
    assert without.common == ["local"]


def test_columns_are_tested_against_the_best_seed_by_seed(recipe, cells):
    local = next(s for s in standings(recipe, cells).of_row("three") if s.cell.column == "local")
    # Differences -10, -11, -9: mean -10, std 1, t = -10 sqrt(3) with 2 degrees of freedom.
    assert local.behind.mean == pytest.approx(-10)
    assert local.p_holm == pytest.approx(0.00332, rel=0.01)
    assert not local.level


def test_equal_means_share_a_rank(recipe, cells):
    same = cell(recipe, "three", "local", [91, 90, 92])
    found = standings(recipe, [same, *cells[1:]])
    assert found.ranks("three") == {"fed-avg": 1.5, "local": 1.5}


def test_the_page_has_ranks_costs_papers_reasons_and_what_is_left(recipe, cells):
    page = leaderboard(recipe, cells)
    assert "4 of 6 cells have been run, 1 of 2 federations whole" in page
    assert "| fed-avg | 1.0 | **91.0** |" in page
    assert "have been (methods: 2, federations: 1)" in page
    assert "| 2 | local | 81.00 | 1.00 | -10.00 | 0.0033 | 90.00 | 90.00 | 2.00 | 1.00 |" in page
    assert " | 0.5 | lr 0.02 |" in page
    assert "| - | centralized | 95.00 |" in page
    assert "| fed-gala | all | nobody shares a node |" in page
    assert "Not run yet: fed-avg, centralized." in page
    assert "- two: 2 of 3 cells" in page
    assert "with seed 500" in page
    assert "`method.epochs` in 1, 2, 3" in page
