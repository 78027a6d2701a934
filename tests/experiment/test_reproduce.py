"""Reproductions on a made-up paper, from recipe to table."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from atoll.cli import app
from atoll.errors import AtollError
from atoll.experiment import recipe as recipes
from atoll.experiment import reproduce as reproduction
from atoll.experiment.recipe import load_recipe, recipe_folder
from atoll.report.comparison import paired
from atoll.report.reproduction import _grid
from small_federations import needs_data

RECIPE = """
title = "A made-up table"
source = "Nobody, 2026."
seeds = 2
tolerance = {tolerance}
above = "{above}"

[settings]
data = {{ name = "patients" }}
partition = {{ name = "random", clients = 3 }}
model = {{ hidden = 8 }}
run = {{ rounds = 3 }}

[methods.local]
[methods.fed-avg]
method = {{ fraction = 0.5 }}

[rows.small]
paper = {{ local = [{paper}, 0.5], fed-avg = [{paper}, 0.1] }}

[rows.other]
settings = {{ partition = {{ clients = 2 }} }}
paper = {{ local = [{paper}, 0.5] }}
tolerance = {{ local = 100.0 }}
"""


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    folder = tmp_path / "recipes" / "nobody"
    folder.mkdir(parents=True)
    monkeypatch.setattr(recipes, "recipe_folder", lambda: tmp_path / "recipes")
    monkeypatch.chdir(tmp_path)

    def write(tolerance=100.0, above="outside", paper=50.0):
        text = RECIPE.format(tolerance=tolerance, above=above, paper=paper)
        (folder / "table-1.toml").write_text(text)

    return write


def reproduce(*arguments):
    return CliRunner().invoke(app, ["reproduce", "nobody/table-1", *arguments])


def test_settings_of_table_row_and_method_are_laid_over_each_other(made_up):
    made_up()
    recipe = load_recipe("nobody/table-1")
    cells = {(t.row, t.column): t for t in recipe.targets}
    assert set(cells) == {("small", "local"), ("small", "fed-avg"), ("other", "local")}
    experiment = cells["small", "fed-avg"].experiment(seed=4)
    assert experiment.method.registered_name == "fed-avg"
    assert experiment.method.fraction == 0.5
    assert (experiment.partition.clients, experiment.run.seed) == (3, 4)
    assert cells["other", "local"].experiment(0).partition.clients == 2
    assert cells["other", "local"].tolerance == 100.0


def test_a_row_may_set_one_column_apart(made_up, tmp_path):
    made_up()
    path = tmp_path / "recipes/nobody/table-1.toml"
    text = path.read_text()
    own = "methods = { fed-avg = { method = { fraction = 0.25 } } }\n"
    path.write_text(text.replace("[rows.small]\n", "[rows.small]\n" + own))
    cells = {(t.row, t.column): t for t in load_recipe("nobody/table-1").targets}
    assert cells["small", "fed-avg"].experiment(0).method.fraction == 0.25
    path.write_text(text.replace("[rows.small]\n", "[rows.small]\n" + own.replace("avg", "awg")))
    with pytest.raises(AtollError, match="fed-awg"):
        load_recipe("nobody/table-1")


def test_intervals_are_shown_where_a_recipe_asks_for_them(made_up, tmp_path):
    made_up()
    path = tmp_path / "recipes/nobody/table-1.toml"
    path.write_text("interval = true\n" + path.read_text())
    assert reproduce("--row", "small", "--column", "local", "--seeds", "3").exit_code == 0
    (cell,) = reproduction.load_cells(tmp_path / "results", "nobody/table-1").values()
    # Student's t with two degrees of freedom is 4.303 at 97.5 %.
    assert cell.interval == pytest.approx(4.303 * cell.std / 3**0.5, rel=1e-3)
    page = (tmp_path / "results/nobody/table-1.md").read_text()
    assert "| ours | 95 % | diff. |" in page
    assert f"± {cell.interval:.2f} |" in page


def test_a_wide_spread_of_the_paper_widens_the_tolerance(made_up, tmp_path):
    made_up(tolerance=0.8)
    path = tmp_path / "recipes/nobody/table-1.toml"
    path.write_text("spreads = 2.0\n" + path.read_text())
    allowed = {
        t.column: t.tolerance for t in load_recipe("nobody/table-1").targets if t.row == "small"
    }
    assert allowed == {"local": 1.0, "fed-avg": 0.8}


def test_ours_is_kept_beside_the_papers(made_up, tmp_path):
    made_up()
    done = reproduce("--row", "small", "--seeds", "2")
    assert done.exit_code == 0, done.output
    kept = json.loads((tmp_path / "results/nobody/table-1.json").read_text())["cells"]
    assert [(c["row"], c["column"]) for c in kept] == [("small", "local"), ("small", "fed-avg")]
    cell = kept[0]
    assert cell["ours"] == pytest.approx(sum(cell["values"]) / 2)
    assert cell["std"] == pytest.approx(abs(cell["values"][0] - cell["values"][1]) / 2**0.5)
    assert cell["command"] == "atoll reproduce nobody/table-1 --row small --seeds 2"
    assert cell["seconds"] > 0
    assert cell["settings"]["run"]["rounds"] == 3
    page = (tmp_path / "results/nobody/table-1.md").read_text()
    assert f"| small | local | 50.00 ± 0.500 | {cell['ours']:.2f} ±" in page


def test_columns_are_compared_seed_by_seed(made_up, tmp_path):
    """Differences 2, 3 and 4: t = 3 / (1 / sqrt 3) = 5.196, and p = 0.035 with two degrees."""
    made_up()
    path = tmp_path / "recipes/nobody/table-1.toml"
    path.write_text('compare = ["local > fed-avg"]\n' + path.read_text())
    assert reproduce("--out", "out").exit_code == 0
    page = (tmp_path / "out/nobody/table-1.md").read_text()
    assert page.count("| local > fed-avg |") == 1  # the other row has no fed-avg
    cells = reproduction.load_cells(tmp_path / "out", "nobody/table-1")
    one = replace(cells["small local"], values=(3.0, 5.0, 7.0, 100.0))
    other = replace(cells["small fed-avg"], values=(1.0, 2.0, 3.0))
    lines = paired(load_recipe("nobody/table-1"), [one, other])
    assert lines[-2] == "| small | local > fed-avg | +3.00 ± 1.00 | 3 | 0.035 |"


def test_a_single_column(made_up, tmp_path):
    made_up()
    reproduce("--column", "fed-avg", "--seeds", "1")
    kept = json.loads((tmp_path / "results/nobody/table-1.json").read_text())["cells"]
    assert [(c["row"], c["column"]) for c in kept] == [("small", "fed-avg")]
    done = reproduce("--column", "fed-av")
    assert "did you mean 'fed-avg'?" in str(done.exception)


def test_rows_run_later_join_those_run_before(made_up, tmp_path):
    made_up()
    reproduce("--row", "other", "--seeds", "1")
    reproduce("--row", "small", "--seeds", "1")
    kept = json.loads((tmp_path / "results/nobody/table-1.json").read_text())["cells"]
    assert [c["row"] for c in kept] == ["small", "small", "other"]


@pytest.mark.parametrize(
    ("paper", "above", "code"),
    [(100.0, "outside", 1), (0.0, "outside", 1), (0.0, "fine", 0)],
)
def test_a_cell_outside_its_tolerance_makes_exit_code_1(made_up, paper, above, code):
    made_up(tolerance=0.5, above=above, paper=paper)
    done = reproduce("--row", "small", "--seeds", "1")
    assert done.exit_code == code
    assert ("outside" in done.output) == bool(code)


def test_statistics_of_a_partition_have_a_relative_tolerance(made_up, tmp_path):
    (tmp_path / "recipes/nobody/table-1.toml").write_text(
        "title = 'Sizes'\nsource = 'Nobody'\nseeds = 1\ntolerance = 0.01\n"
        "measure = 'statistics'\nrelative = true\n"
        "[settings]\ndata = { name = 'patients' }\npartition = { name = 'random', clients = 3 }\n"
        "[rows.three]\npaper = { whole_nodes = 569, nodes = 190, heterogeneity = 0.9 }\n"
    )
    done = reproduce("--seeds", "1")
    assert done.exit_code == 1
    kept = json.loads((tmp_path / "results/nobody/table-1.json").read_text())["cells"]
    assert [c["column"] for c in kept] == ["whole_nodes", "nodes", "heterogeneity"]
    assert kept[0]["ours"] == 569
    assert kept[1]["ours"] == pytest.approx(569 / 3)
    assert kept[1]["tolerance"] == pytest.approx(1.9)
    assert done.output.count("outside") == 1


FIGURE = """
title = "A made-up figure"
source = "Nobody, 2026."
seeds = 2
columns = ["alone", "early", "traffic"]

[settings]
data = {{ name = "patients" }}
partition = {{ name = "random", clients = 3 }}
model = {{ hidden = 8 }}
run = {{ rounds = 3 }}

[plot]
kind = "{kind}"
x = "clients"
y = "accuracy"

[methods.alone]
method = {{ name = "local" }}
[methods.early]
figure = "test_accuracy@1"
method = {{ name = "fed-avg" }}
[methods.traffic]
figure = "bytes_up"
method = {{ name = "fed-avg" }}

[rows.three]
x = 3
paper = {{ alone = 50.0 }}

[rows.two]
x = 2
settings = {{ partition = {{ clients = 2 }} }}
"""


def write_figure(tmp_path, kind):
    (tmp_path / "recipes/nobody/table-1.toml").write_text(FIGURE.format(kind=kind))


def test_columns_show_figures_of_any_method_published_or_not(made_up, tmp_path):
    write_figure(tmp_path, "lines")
    done = reproduce("--row", "three")
    assert done.exit_code == 1, done.output  # local is not within a point of 50
    kept = json.loads((tmp_path / "results/nobody/table-1.json").read_text())["cells"]
    alone, early, traffic = kept
    assert alone["paper"] == 50.0
    assert alone["settings"]["method"]["name"] == "local"
    assert early["paper"] is None
    assert 0 < early["ours"] <= 100
    model_bytes = 4 * (30 * 8 + 8 + 8 * 8 + 8 + 8 * 2 + 2)
    assert traffic["ours"] > 3 * 3 * model_bytes
    page = (tmp_path / "results/nobody/table-1.md").read_text()
    assert "| three | early | - |" in page
    assert "(table-1.svg)" in page


def test_two_figures_of_one_experiment_train_once(made_up, tmp_path, monkeypatch):
    from atoll.experiment.reproduce import _findings
    from atoll.studies import run as run_study

    _findings.cache_clear()
    runs = []
    original = run_study.run_experiment
    monkeypatch.setattr(
        run_study, "run_experiment", lambda e, out, **how: runs.append(e) or original(e, out, **how)
    )
    write_figure(tmp_path, "lines")
    reproduce("--row", "two", "--seeds", "1")
    assert [e.method.registered_name for e in runs] == ["local", "fed-avg"]


def test_a_kept_run_serves_an_interrupted_table(made_up, tmp_path, monkeypatch):
    from atoll.experiment.reproduce import _findings
    from atoll.studies import run as run_study

    write_figure(tmp_path, "curves")
    command = ("--row", "two", "--seeds", "2", "--runs", str(tmp_path / "runs"))
    reproduce(*command)
    first = json.loads((tmp_path / "results/nobody/table-1.json").read_text())["cells"]
    runs = sorted((tmp_path / "runs").iterdir())
    assert len(runs) == 4  # two methods, two seeds
    runs[0].unlink()
    _findings.cache_clear()
    again = []
    original = run_study.run_experiment
    monkeypatch.setattr(
        run_study, "run_experiment", lambda e, o, **how: again.append(e) or original(e, o, **how)
    )
    reproduce(*command)
    assert len(again) == 1
    second = json.loads((tmp_path / "results/nobody/table-1.json").read_text())["cells"]
    for one, other in zip(first, second, strict=True):
        assert one["values"] == other["values"]
        assert one["array"] == other["array"]


def test_a_kept_run_that_is_damaged_is_named(made_up, tmp_path):
    from atoll.experiment.reproduce import _findings

    write_figure(tmp_path, "lines")
    command = ("--row", "two", "--seeds", "1", "--runs", str(tmp_path / "runs"))
    reproduce(*command)
    _findings.cache_clear()
    for path in (tmp_path / "runs").iterdir():
        path.write_text("{")
    done = reproduce(*command)
    assert isinstance(done.exception, AtollError)
    assert "delete it" in str(done.exception)


@pytest.mark.parametrize("kind", ["lines", "bars", "boxes", "curves"])
def test_figures_are_drawn_the_same_each_time(made_up, tmp_path, kind):
    write_figure(tmp_path, kind)
    pictures = []
    for _ in range(2):
        reproduce("--column", "alone", "--column", "early", "--seeds", "2")
        pictures.append((tmp_path / "results/nobody/table-1.svg").read_bytes())
    assert pictures[0] == pictures[1]
    assert b"alone" in pictures[0]
    assert b"clients" in pictures[0]
    kept = json.loads((tmp_path / "results/nobody/table-1.json").read_text())["cells"]
    curves = [c["array"] for c in kept if c["array"] is not None]
    assert [len(c) for c in curves] == ([3, 3] if kind == "curves" else [])


def test_curves_of_runs_that_finish_early_stay_where_they_were():
    mean = reproduction._mean_curve([np.array([10.0, 20.0]), np.array([30.0, 40.0, 50.0])])
    assert mean.tolist() == [20.0, 30.0, 35.0]


@needs_data
def test_jobs_run_cells_at_the_same_time_to_the_same_numbers(tmp_path):
    def table(jobs):
        out = tmp_path / str(jobs)
        done = CliRunner().invoke(
            app,
            ["reproduce", "fed-pub/table-4", "--row", "cora-disjoint-10", "--row",
             "cora-disjoint-20", "--seeds", "1", "--jobs", jobs, "--out", str(out)],
        )  # fmt: skip
        assert done.exit_code in (0, 1), done.output
        cells = json.loads((out / "fed-pub/table-4.json").read_text())["cells"]
        return [(c["column"], c["values"]) for c in cells]

    assert table("1") == table("2")


def test_missing_runs_only_what_is_not_kept_with_these_settings(made_up, tmp_path, monkeypatch):
    made_up()
    assert reproduce("--row", "small").exit_code == 0
    ran = []
    run = reproduction._run
    monkeypatch.setattr(
        reproduction,
        "_run",
        lambda recipe, t, *how: ran.append((t.row, t.column)) or run(recipe, t, *how),
    )
    result = reproduce("--missing")
    assert result.exit_code == 0
    assert ran == [("other", "local")]
    assert "small" in result.output
    assert "fed-avg" in result.output
    ran.clear()
    path = tmp_path / "recipes/nobody/table-1.toml"
    path.write_text(path.read_text().replace("fraction = 0.5", "fraction = 0.9"))
    assert CliRunner().invoke(app, ["reproduce"]).exit_code == 0
    page = (tmp_path / "results/nobody/table-1.md").read_text()
    assert "other settings than the recipe has now, to be run again: small fed-avg.**" in page
    assert reproduce("--missing").exit_code == 0
    assert ran == [("small", "fed-avg")]
    ran.clear()
    assert reproduce("--missing", "--seeds", "3", "--row", "other").exit_code == 0
    assert ran == [("other", "local")]
    ran.clear()
    # Kept by an older version, without a setting that has come since: its default held.
    kept = tmp_path / "results/nobody/table-1.json"
    cells = json.loads(kept.read_text())
    for cell in cells["cells"]:
        del cell["settings"]["run"]["score_every"]
    kept.write_text(json.dumps(cells))
    assert reproduce("--missing").exit_code == 0
    assert ran == []


def test_without_a_table_pages_and_an_index_are_written_anew(made_up, tmp_path):
    made_up()
    assert reproduce("--row", "small").exit_code == 0
    page = tmp_path / "results/nobody/table-1.md"
    page.unlink()
    made_up(paper=60.0)
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
    lines = _grid(cells)
    assert lines[0] == "| | only |"
    assert lines[2] == "| c0 | 1.00 ± 0.000 |"
    assert len(lines) == 2 + 11 + 1


def test_a_recipe_without_rows_is_explained(made_up, tmp_path):
    (tmp_path / "recipes/nobody/table-1.toml").write_text("title = 'x'\nsource = 'y'\n")
    with pytest.raises(AtollError, match="no section 'settings'"):
        load_recipe("nobody/table-1")


def test_a_damaged_results_file_is_named_and_kept(made_up, tmp_path):
    made_up()
    (tmp_path / "results/nobody").mkdir(parents=True)
    kept = tmp_path / "results/nobody/table-1.json"
    kept.write_text("{")
    done = reproduce("--row", "small", "--seeds", "1")
    assert isinstance(done.exception, AtollError)
    assert "table-1.json" in str(done.exception)
    assert kept.read_text() == "{"


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
