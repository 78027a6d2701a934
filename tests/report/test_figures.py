"""Pictures of runs by kind, what notebooks show, and what is refused in a sentence."""

import subprocess
import sys

import numpy as np
import pytest

import atoll
from atoll.errors import AtollError
from atoll.graph import make_graph
from atoll.report.figures import KINDS, draw, save

RUN = {"data": "patients", "partition": "random", "clients": 3, "rounds": 4}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One run per method with the same seed, and one that predicts links."""
    folder = tmp_path_factory.mktemp("runs")
    found = {m: atoll.run(method=m, out=folder / m, **RUN) for m in ("local", "fed-avg", "fed-pub")}
    return found | {"links": atoll.run(method="fed-avg", task="links", out=folder / "links", **RUN)}


@pytest.mark.parametrize(
    ("kind", "ending"), [*((kind, "svg") for kind in KINDS), ("clients", "pdf"), ("clients", "png")]
)
def test_every_kind_is_drawn_in_the_format_of_the_name(runs, kind, ending, tmp_path):
    folders = [runs[m].run_dir for m in ("local", "fed-avg", "fed-pub")]
    path = tmp_path / f"figure.{ending}"
    save(draw(folders, kind), path)
    start = path.read_bytes()[:5]
    assert start == {"pdf": b"%PDF-", "svg": b"<?xml", "png": b"\x89PNG\r"}[ending]


def test_lines_are_the_means_over_clients(runs):
    axes = draw([runs["fed-avg"].run_dir], "convergence").axes[0]
    history = runs["fed-avg"].history
    means = history.group_by("round").mean().sort("round")["test_accuracy"]
    assert axes.lines[0].get_xdata().tolist() == [1, 2, 3, 4]
    assert axes.lines[0].get_ydata() == pytest.approx(100 * means.to_numpy())


def test_gains_are_differences_to_training_alone(runs):
    axes = draw([runs["fed-avg"].run_dir, runs["local"].run_dir], "gain").axes[0]
    [dots] = [c for c in axes.collections if len(c.get_offsets()) == 3]
    alone, joined = (
        np.array([c["test_accuracy"] for c in runs[m].per_client]) for m in ("local", "fed-avg")
    )
    assert dots.get_offsets()[:, 0].tolist() == pytest.approx((100 * (joined - alone)).tolist())


@pytest.mark.parametrize(
    ("method", "kind", "why"),
    [
        ("fed-avg", "gain", "add a run of 'local'"),
        ("fed-avg", "similarity", "draw a run of fed-pub or gcfl"),
        ("links", "confusion", "the task 'links' has no classes"),
        ("links", "pr", "the task 'links' has no classes"),
        ("fed-avg", "pie", "pie"),
    ],
)
def test_a_kind_that_a_run_has_nothing_for_is_refused(runs, method, kind, why):
    with pytest.raises(AtollError, match=why):
        draw([runs[method].run_dir], kind)


def test_runs_that_can_not_be_compared_share_no_picture(runs):
    with pytest.raises(AtollError, match="can't share a picture"):
        draw([runs["fed-avg"].run_dir, runs["links"].run_dir], "convergence")


def test_the_command_refuses_an_unknown_format_in_one_sentence(runs, tmp_path):
    out = tmp_path / "figure.doc"
    command = [sys.executable, "-m", "atoll", "plot", str(runs["local"].run_dir), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, out.exists()) == (2, "", False)
    assert done.stderr.startswith(f"atoll: '{out}' can't be drawn; end its name with one of .pdf")


def test_results_draw_themselves(runs):
    figure = runs["fed-pub"].plot("similarity")
    assert [axes.get_title() for axes in figure.axes[:3]] == ["round 1", "round 2", "round 4"]
    assert runs["fed-avg"].plot().axes[0].get_ylabel() == "test accuracy, percent"


def test_notebooks_show_few_lines_in_which_all_text_is_escaped(runs):
    shown = runs["fed-avg"]._repr_html_()
    assert f"<td>{100 * runs['fed-avg'].test_accuracy:.2f}</td>" in shown
    ids = np.array(["patient-77", "patient-78"])
    graph = make_graph(np.eye(2), np.array([[0], [1]]), np.array([0, 1]), ids=ids, name="<b>us</b>")
    assert "&lt;b&gt;us&lt;/b&gt;" in graph._repr_html_()
    assert "patient" not in graph._repr_html_()
    assert "<td>1</td>" in graph._repr_html_()
