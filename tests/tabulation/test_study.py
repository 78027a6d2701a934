"""Studies that train: interrupted and identical, in processes, what is written, what is refused."""

import csv
import json
import signal
import subprocess
import sys

import pytest

import atoll
from atoll.errors import AtollError, Interrupted
from atoll.tabulation.study import resume_study

FORM = {
    "title": "Pulls & walls",
    "seeds": 3,
    "baseline": "local",
    "settings": {
        "partition": {"name": "random", "clients": 3},
        "model": {"hidden": 4},
        "run": {"rounds": 3},
    },
    "rows": {"data": ["patients", "digits"]},
    "columns": {"method": ["local", "fed-avg"]},
}
WRITTEN = ("README.md", "table.tex", "table.svg", "cells.csv", "differences.csv", "ranks.csv",
           "runs.csv", "results.json", "study.json", "table.pdf")  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return atoll.study(FORM, out=tmp_path_factory.mktemp("whole") / "s")


def files(folder):
    return {name: (folder / name).read_bytes() for name in WRITTEN}


def test_cells_are_what_atoll_run_gives(whole, tmp_path):
    single = atoll.run(data="digits", method="fed-avg", partition="random", clients=3, rounds=3,
                       seed=1, settings={"model.hidden": 4}, out=tmp_path / "r")  # fmt: skip
    values = whole.found["digits", "fed-avg"].values
    assert values[1] == 100 * single.test_accuracy
    [line] = [c for c in whole.cells.to_dicts() if (c["row"], c["column"]) == ("digits", "fed-avg")]
    assert line["mean"] == pytest.approx(sum(values) / 3)
    assert line["figure"] == "test_accuracy"
    # Half of the interval of three values: 4.303 s / sqrt(3).
    assert line["high"] - line["mean"] == pytest.approx(4.302653 * line["std"] / 3**0.5)


def test_differences_are_paired_and_corrected_together(whole):
    lines = whole.differences.to_dicts()
    assert [(d["row"], d["column"], d["against"]) for d in lines] == [
        ("patients", "fed-avg", "local"), ("digits", "fed-avg", "local"),
    ]  # fmt: skip
    one, other = (whole.found["digits", c].values for c in ("fed-avg", "local"))
    assert lines[1]["difference"] == pytest.approx(
        sum(a - b for a, b in zip(one, other, strict=True)) / 3
    )
    small, large = sorted(d["p"] for d in lines)
    assert sorted(d["p_holm"] for d in lines) == pytest.approx(
        [min(1, 2 * small), max(min(1, 2 * small), large)]
    )


def test_the_folder_shows_it(whole):
    page = (whole.out / "README.md").read_text()
    best = max(("local", "fed-avg"), key=lambda c: whole.found["patients", c].ours)
    cell = whole.found["patients", best]
    assert f"**{cell.ours:.2f} ± {cell.std:.2f}**" in page
    assert "| patients | fed-avg - local |" in page
    tex = (whole.out / "table.tex").read_text()
    assert f"$\\mathbf{{{cell.ours:.2f} \\pm {cell.std:.2f}}}$" in tex
    assert tex.count(r"\\") == 3
    with (whole.out / "runs.csv").open() as file:
        runs = list(csv.DictReader(file))
    assert len(runs) == 12
    assert (whole.out / runs[0]["run_dir"] / "summary.json").is_file()
    kept = json.loads((whole.out / "results.json").read_text())
    assert kept == json.loads(json.dumps(whole.summary()))
    assert "Mean ranks over 2 rows are shown without a test" in kept["cautions"][0]


def test_interrupted_it_goes_on_to_the_same_bytes(whole, tmp_path):
    def stop(done, total, note):
        assert total == 36
        if done == 5:
            signal.raise_signal(signal.SIGINT)

    out = tmp_path / "s"
    with pytest.raises(Interrupted, match=r"with 1 of 12 runs complete; .* atoll resume"):
        atoll.study(FORM, out=out, progress=stop)
    assert not (out / "README.md").exists()
    atoll.study(FORM, jobs=2, out=out)
    assert files(out) == files(whole.out)


def test_killed_it_goes_on_to_the_same(whole, tmp_path):
    out, code = tmp_path / "s", (
        "import json, sys, atoll\n"
        "atoll.study(json.loads(sys.argv[1]), out=sys.argv[2],"
        " progress=lambda *now: print(now[0], flush=True))\n"
    )  # fmt: skip
    work = subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(FORM), str(out)], stdout=subprocess.PIPE, text=True
    )
    with work.stdout:
        for line in work.stdout:
            if int(line) >= 8:
                work.kill()
                break
    work.wait()
    assert work.returncode == -signal.SIGKILL
    again = resume_study(out)
    assert again.summary() == whole.summary()


def test_seeds_rows_and_columns_may_join(whole, tmp_path):
    out = tmp_path / "s"
    atoll.study(FORM | {"rows": {"data": ["patients"]}}, seeds=2, out=out)
    kept = out / "runs/patients/local/seed-0/summary.json"
    before = kept.stat().st_mtime_ns
    assert atoll.study(FORM, out=out).summary() == whole.summary()
    assert kept.stat().st_mtime_ns == before


def test_another_study_is_refused(whole, tmp_path):
    other = FORM | {"settings": FORM["settings"] | {"model": {"hidden": 5}}}
    with pytest.raises(AtollError, match=r"another study: patients / local has model.hidden = 4"):
        atoll.study(other, out=whole.out)
    (tmp_path / "file").touch()
    with pytest.raises(AtollError, match="holds something else than a study"):
        atoll.study(FORM, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_unknown_figure_is_said_after_one_run(tmp_path):
    with pytest.raises(AtollError, match="unknown figure 'test_acuracy': did you mean"):
        atoll.study(FORM | {"figure": "test_acuracy"}, out=tmp_path / "s")
    assert len(list((tmp_path / "s").rglob("summary.json"))) == 1


def test_any_figure_and_an_axis_of_numbers(tmp_path):
    found = atoll.study(
        {"figure": "bytes_up", "plot": "lines", "seeds": 1,
         "settings": {"data": "patients", "partition": {"name": "random"}, "run": {"rounds": 1}},
         "rows": {"partition": {"clients": [2, 4]}},
         "columns": {"method.fraction": [1.0, 0.5], "method": ["fed-avg"]}},
        out=tmp_path / "s",
    )  # fmt: skip
    assert found.columns == ["fraction=1.0, fed-avg", "fraction=0.5, fed-avg"]
    assert found.less_is_better
    sent = {place: cell.ours for place, cell in found.found.items()}
    all_of_them, half = (sent["clients=4", column] for column in found.columns)
    assert all_of_them == 2 * half
    assert found.best_of("clients=4") == ["fraction=0.5, fed-avg"]
    assert found.cells["std"].to_list() == [None] * 4
    assert "1 is too few seeds" in found.cautions()[0]


def test_six_rows_are_ranked_and_drawn(tmp_path):
    found = atoll.study(
        {"seeds": 1,
         "settings": {"data": "patients", "partition": {"name": "random"}, "model": {"hidden": 2},
                      "run": {"rounds": 1}},
         "rows": {"partition": {"clients": [2, 3, 4, 5, 6, 7]}},
         "columns": {"method": ["local", "fed-avg", "centralized"]}},
        out=tmp_path / "s",
    )  # fmt: skip
    assert found.ranking.rows == 6
    assert sum(found.ranking.mean) == pytest.approx(6)
    drawing = (tmp_path / "s" / "ranks.svg").read_text()
    assert "critical difference" in drawing
    assert all(f"{name} (" in drawing for name in found.columns)
    assert "Friedman's test" in (tmp_path / "s" / "README.md").read_text()


def test_the_command(here, tmp_path):
    lines = ["seeds = 1", "[settings]", "run = { rounds = 1 }", 'partition = "random"', "[rows]",
             'data = ["patients"]', "[columns]", 'method = ["local", "fed-avg"]']  # fmt: skip
    (tmp_path / "mine.toml").write_text("\n".join(lines))
    done = here("study", "mine.toml")
    assert done.returncode == 0, done.stderr
    assert "kept in runs/study-mine" in done.stdout
    assert "2/2" in done.stderr
    assert here("resume", "runs/study-mine").stdout == done.stdout
    kept = json.loads(here("study", "mine.toml", "--json").stdout)
    assert kept["columns"] == ["local", "fed-avg"]
    wrong = here("study", "none.toml")
    assert (wrong.returncode, wrong.stderr) == (
        2, "atoll: there is no file 'none.toml'; check the path.\n",
    )  # fmt: skip
    assert here("study", "mine.toml", "--jobs", "0").returncode == 2
