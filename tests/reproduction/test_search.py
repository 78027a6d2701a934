"""Cells whose settings are chosen by validation before their seeds are run."""

import json
from pathlib import Path

import pytest

from atoll.errors import AtollError
from atoll.experiment.config import describe
from atoll.experiment.runner import run_experiment
from atoll.reproduction.recipe import load_recipe
from atoll.reproduction.reproduce import not_kept
from atoll.reproduction.search import chosen_for
from atoll.tuning.space import axes_of
from made_up_paper import NAME, kept_cells, reproduce

BOARD = """
title = "A made-up board"
source = "Nobody, 2026."
seeds = 2
tolerance = 100.0
columns = ["local", "fed-avg", "fed-gala", "centralized"]
references = ["centralized"]

[tuning]
trials = 3
seed = 500
[tuning.over]
"optimizer.lr" = "0.001..0.1:log"

[settings]
data = { name = "patients" }
model = { hidden = 8 }
run = { rounds = 2, metric = "accuracy" }

[methods.local]
[methods.fed-avg]
over = { "method.epochs" = [1, 2, 3] }
[methods.fed-gala]
[methods.centralized]
over = { "optimizer.lr" = false }

[rows.three]
settings = { partition = { name = "random", clients = 3 } }
paper = { local = [90.0, 0.5] }
[rows.two]
settings = { partition = { name = "random", clients = 2 } }

[[absent]]
columns = ["fed-gala"]
reason = "nobody shares a node"
"""


@pytest.fixture
def board(paper):
    paper.path.write_text(BOARD)
    return paper


def test_ranges_are_those_of_all_and_of_the_column(board):
    over = {t.column: dict(t.budget.over) for t in load_recipe(NAME).targets}
    lr = {"optimizer.lr": "0.001..0.1:log"}
    assert over == {"local": lr, "fed-avg": lr | {"method.epochs": [1, 2, 3]}, "centralized": {}}


def test_what_does_not_apply_is_no_cell_and_has_a_reason(board):
    recipe = load_recipe(NAME)
    assert {t.column for t in recipe.targets} == {"local", "fed-avg", "centralized"}
    reason = "nobody shares a node"
    assert recipe.absent == {("three", "fed-gala"): reason, ("two", "fed-gala"): reason}


def test_the_best_validation_score_of_all_trials_is_chosen(board, tmp_path):
    target = next(t for t in load_recipe(NAME).targets if t.column == "fed-avg")
    chosen = chosen_for(target, 2, tmp_path / "runs")
    assert set(chosen.settings) == {"optimizer.lr", "method.epochs"}
    (folder,) = (tmp_path / "runs").iterdir()
    found = json.loads((folder / "results.json").read_text())
    assert found["seeds"] == [500]
    assert len(found["trials"]) == 3
    assert found["trials"][0]["optimizer.lr"] == 0.01, "the recipe's own settings come first"
    assert chosen.val == max(trial["score"] for trial in found["trials"])
    again = run_experiment(target.experiment(500, chosen.settings), tmp_path / "again")
    assert again.val_score == chosen.val


def test_reported_seeds_are_run_with_what_was_chosen(board, tmp_path):
    assert reproduce("--row", "three", "--runs", "runs").exit_code == 0
    cells = {cell.column: cell for cell in kept_cells()}
    cell = cells["fed-avg"]
    target = cell.target
    result = run_experiment(target.experiment(1, cell.chosen), tmp_path / "again")
    assert 100 * result.test_accuracy == pytest.approx(cell.values[1])
    now = json.loads(json.dumps(describe(target.experiment(0, cell.chosen))))
    assert cell.settings == now
    assert cell.costs["bytes_up"] == result.bytes_up
    assert cell.budget == target.budget.plain()
    assert cells["centralized"].chosen == {}
    assert cells["centralized"].val is None


def test_missing_knows_what_was_chosen_and_another_budget(board):
    reproduce("--row", "three", "--seeds", "1")
    recipe = load_recipe(NAME)
    left = not_kept(recipe, recipe.targets, 1, Path("results"))
    assert {t.row for t in left} == {"two"}
    board.path.write_text(BOARD.replace("trials = 3", "trials = 2"))
    recipe = load_recipe(NAME)
    assert len(not_kept(recipe, recipe.targets, 1, Path("results"))) == 6


def test_a_kept_search_is_not_done_again(board, monkeypatch):
    arguments = ("--row", "two", "--column", "local", "--seeds", "1", "--runs", "runs")
    assert reproduce(*arguments).exit_code == 0
    before = kept_cells()[0]
    monkeypatch.setattr("atoll.tuning.tune._try", lambda *_: pytest.fail("a trial was run again"))
    Path("results/nobody/table-1.json").unlink()
    assert reproduce(*arguments).exit_code == 0
    assert kept_cells()[0].values == before.values
    assert kept_cells()[0].chosen == before.chosen


def test_a_trial_has_no_seed_that_is_reported(board):
    board.path.write_text(BOARD.replace("seed = 500", "seed = 1"))
    done = reproduce("--row", "two", "--column", "local")
    assert isinstance(done.exception, AtollError)
    assert "tuning.seed is 1, which is one of the 2 seeds" in str(done.exception)


def test_a_cell_that_fails_leaves_the_others(board):
    board.path.write_text(
        BOARD.replace('name = "random", clients = 2', 'name = "natural", clients = 2')
    )
    done = reproduce("--column", "local", "--seeds", "1")
    assert isinstance(done.exception, AtollError)
    assert str(done.exception).startswith("two local: none of the 3 trials came to its end")
    assert [cell.row for cell in kept_cells()] == ["three"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('columns = ["fed-gala"]', 'columns = ["fed-gal"]', "fed-gala"),
        ("trials = 3", "trials = 0", r"tuning\.trials is 0; it must be at least 1"),
        ('[tuning.over]\n"optimizer.lr" = "0.001..0.1:log"', "over = 3", "tuning.over is 3"),
    ],
)
def test_mistakes_are_named(board, old, new, said):
    board.path.write_text(BOARD.replace(old, new))
    with pytest.raises(AtollError, match=said):
        load_recipe(NAME)


def test_ranges_without_a_budget_are_refused(board):
    cut = BOARD[: BOARD.index("[tuning]")] + BOARD[BOARD.index("[settings]") :]
    board.path.write_text(cut)
    with pytest.raises(AtollError, match=r"has ranges, but there is no section \[tuning\]"):
        load_recipe(NAME)


@pytest.mark.parametrize("name", ["leaderboard/nodes"])
def test_every_range_of_the_project_is_within_bounds(name):
    seen = set()
    for target in load_recipe(name).targets:
        if target.column in seen:
            continue
        seen.add(target.column)
        for axis in axes_of(target.budget.over, describe(target.experiment(0))):
            for value in axis.ends:
                target.experiment(0, {axis.path: value})
    assert len(seen) >= 25
