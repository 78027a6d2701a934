"""Pages and plots of kept results."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from atoll.cli import app
from atoll.errors import AtollError
from atoll.report.comparison import paired
from atoll.report.reproduction import grid
from atoll.reproduction.recipe import load_recipe
from made_up_paper import kept_cells, reproduce


def test_intervals_are_shown_where_a_recipe_asks_for_them(paper, tmp_path):
    paper.write()
    path = paper.path
    path.write_text("interval = true\n" + path.read_text())
    assert reproduce("--row", "small", "--column", "local", "--seeds", "3").exit_code == 0
    (cell,) = kept_cells()
    # Student's t with two degrees of freedom is 4.303 at 97.5 %.
    assert cell.interval == pytest.approx(4.303 * cell.std / 3**0.5, rel=1e-3)
    page = (tmp_path / "results/nobody/table-1.md").read_text()
    assert "| ours | 95 % | diff. |" in page
    assert f"± {cell.interval:.2f} |" in page


def test_columns_are_compared_seed_by_seed(paper, tmp_path):
    """Differences 2, 3 and 4: t = 3 / (1 / sqrt 3) = 5.196, and p = 0.035 with two degrees."""
    paper.write()
    path = paper.path
    path.write_text('compare = ["local > fed-avg"]\n' + path.read_text())
    assert reproduce("--out", "out").exit_code == 0
    page = (tmp_path / "out/nobody/table-1.md").read_text()
    assert page.count("| local > fed-avg |") == 1  # the other row has no fed-avg
    local, fed_avg, _ = kept_cells("out")
    one = replace(local, values=(3.0, 5.0, 7.0, 100.0))
    other = replace(fed_avg, values=(1.0, 2.0, 3.0))
    lines = paired(load_recipe("nobody/table-1"), [one, other])
    assert lines[-2] == "| small | local > fed-avg | +3.00 ± 1.00 | 3 | 0.035 | +0.000 |"


@pytest.mark.parametrize("kind", ["lines", "bars", "boxes", "curves"])
def test_figures_are_drawn_the_same_each_time(paper, tmp_path, kind):
    paper.write_figure(kind)
    pictures = []
    for _ in range(2):
        reproduce("--column", "alone", "--column", "early", "--seeds", "2")
        pictures.append((tmp_path / "results/nobody/table-1.svg").read_bytes())
    assert pictures[0] == pictures[1]
    assert b"alone" in pictures[0]
    assert b"clients" in pictures[0]
    kept = kept_cells()
    curves = [c.array for c in kept if c.array is not None]
    assert [len(c) for c in curves] == ([3, 3] if kind == "curves" else [])


def test_every_seed_is_a_dot_where_a_figure_asks_for_them(paper, tmp_path):
    """Two seeds of two columns in two rows: eight dots more than the means."""
    paper.write_figure("lines")
    text = paper.path.read_text()

    def dots():
        reproduce("--column", "alone", "--column", "early", "--missing")
        return (tmp_path / "results/nobody/table-1.svg").read_text().count("<use ")

    means = dots()
    paper.path.write_text(text.replace('y = "accuracy"', 'y = "accuracy"\nevery_seed = true'))
    assert dots() == means + 8
    paper.path.write_text(text.replace('kind = "lines"', 'kind = "bars"\nevery_seed = true'))
    with pytest.raises(AtollError, match=r"plot\.every_seed is for lines; kind is bars"):
        load_recipe("nobody/table-1")


def test_without_a_table_pages_and_an_index_are_written_anew(paper, tmp_path):
    paper.write()
    assert reproduce("--row", "small").exit_code == 0
    page = tmp_path / "results/nobody/table-1.md"
    page.unlink()
    paper.write(paper=60.0)
    result = CliRunner().invoke(app, ["reproduce"])
    assert result.exit_code == 0, result.output
    assert "nobody/table-1" in result.output
    index = (tmp_path / "results/README.md").read_text()
    assert "| [nobody/table-1](nobody/table-1.md) | A made-up table | 2 | 3 | 0 |" in index
    header, _, row = page.read_text().split("brackets.")[1].splitlines()[2:5]
    assert header == "| | local | fed-avg |"
    assert row.startswith("| small | ")
    assert row.count("(60.00)") == 2


def test_a_grid_with_many_columns_is_turned_over():
    cells = [
        SimpleNamespace(row="only", column=f"c{i}", ours=float(i + 1), std=0.0, paper=None)
        for i in range(11)
    ]
    lines = grid(cells)
    assert lines[0] == "| | only |"
    assert lines[2] == "| c0 | 1.00 ± 0.000 |"
    assert len(lines) == 2 + 11 + 1
