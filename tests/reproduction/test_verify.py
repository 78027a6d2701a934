"""Kept cells that are run again."""

from atoll.reproduction.recipe import load_recipe
from atoll.reproduction.results import store_cells
from made_up_paper import NAME, kept_cells, reproduce


def test_kept_cells_come_out_again_and_nothing_is_changed(paper, tmp_path):
    paper.write()
    reproduce("--row", "small", "--seeds", "2")
    before = {p.name: p.read_bytes() for p in (tmp_path / "results/nobody").iterdir()}
    done = reproduce("--verify", "5")
    assert done.exit_code == 0, done.output
    assert "2 of 2 are the same" in done.output
    assert {p.name: p.read_bytes() for p in (tmp_path / "results/nobody").iterdir()} == before
    commit = kept_cells()[0].environment["commit"]
    assert len(commit.split("-")[0]) >= 7
    assert kept_cells()[0].environment["threads"] >= 1


def test_one_that_differs_is_shown_and_exits_with_1(paper, tmp_path):
    paper.write()
    reproduce("--row", "small", "--seeds", "1")
    first = kept_cells()[0]
    wrong = type(first)(**{**vars(first), "values": (first.values[0] + 1.5,)})
    store_cells(tmp_path / "results", load_recipe(NAME), [wrong])
    done = reproduce("--verify", "2")
    assert (done.exit_code, "1 of 2 are the same" in done.output) == (1, True)
    assert "1.50" in done.output


def test_nothing_kept_is_said(paper, tmp_path):
    paper.write()
    assert "keeps no cell with the settings of now" in str(reproduce("--verify", "1").exception)
