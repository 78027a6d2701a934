"""The page about a study: its table, its tests, and the runs that it was made of."""

import shutil

import pytest

import atoll
from atoll.report import facts as all_facts
from atoll.report.facts import report_facts
from atoll.report.html_page import report_page
from browser import needs_browser, opened, resized

FORM = {
    "title": "Two data, <two> methods",
    "notes": "Why this was run.",
    "seeds": 3,
    "baseline": "local",
    "settings": {"partition": {"name": "random", "clients": 3}, "run": {"rounds": 3}},
    "rows": {"data": ["patients", "digits"]},
    "columns": {"method": ["local", "fed-avg"]},
}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return atoll.study(FORM, out=tmp_path_factory.mktemp("study") / "found")


def test_the_page_has_the_numbers_of_the_study(study):
    facts = report_facts([study.out], with_data=False)
    [found] = facts["studies"]
    assert (found["title"], found["notes"]) == (FORM["title"], FORM["notes"])
    shown = [cell["mean"] for row in found["rows"] for cell in row["cells"]]
    assert shown == pytest.approx(study.cells["mean"].to_list(), rel=1e-4)
    assert [row[:2] for row in found["tests"]["rows"]] == [
        ["patients", "fed-avg - local"],
        ["digits", "fed-avg - local"],
    ]
    for row in found["rows"]:
        best = [c for c, cell in zip(found["columns"], row["cells"], strict=True) if cell["best"]]
        assert best == study.best_of(row["label"])
    assert [g["title"] for g in facts["groups"]] == [
        "patients, 3 clients (random)",
        "digits, 3 clients (random)",
    ]
    assert [m["label"] for m in facts["groups"][0]["methods"]] == ["local", "fed-avg"]


def test_clients_that_every_seed_draws_anew_get_no_verdict(study, tmp_path):
    [patients, _] = report_facts([study.out], with_data=False)["groups"]
    assert patients["verdicts"] == {}
    assert any("cuts the data anew" in said for said in patients["cautions"])
    first = study.out / "runs" / "patients" / "local" / "seed-0"
    scores = report_facts([first], with_data=False)["groups"][0]["clients"]["local"]
    assert patients["clients"]["local"] == scores

    settings = {**FORM["settings"], "run": {"rounds": 2, "cut_seed": 0}}
    form = {**FORM, "settings": settings, "rows": {"data": ["patients"]}}
    kept = atoll.study(form, out=tmp_path / "kept")
    [group] = report_facts([kept.out], with_data=False)["groups"]
    assert len(group["verdicts"]["fed-avg"]) == 3
    assert group["cautions"] == []


def test_rows_on_the_same_data_are_one_group_with_labels_of_both(tmp_path):
    rows = {"optimizer": {"lr": [0.01, 0.1]}}
    form = {**FORM, "settings": {**FORM["settings"], "data": "patients"}, "rows": rows, "seeds": 1}
    found = atoll.study(form, out=tmp_path / "rates")
    [group] = report_facts([found.out], with_data=False)["groups"]
    assert [m["label"] for m in group["methods"]] == [
        "lr=0.01 / local", "lr=0.01 / fed-avg", "lr=0.1 / local", "lr=0.1 / fed-avg",
    ]  # fmt: skip


def test_a_study_that_goes_on_says_how_far_it_is(study, tmp_path):
    part = tmp_path / "part"
    shutil.copytree(study.out, part)
    shutil.rmtree(part / "runs" / "digits")
    facts = report_facts([part], with_data=False)
    assert facts["studies"][0]["missing"] == "6 of 12 runs are complete."
    assert len(facts["groups"]) == 1


def test_a_page_that_would_be_too_heavy_leaves_drawings_out_from_the_end(study, monkeypatch):
    whole = report_facts([study.out])
    first, second = (len(str(group)) for group in whole["groups"])
    monkeypatch.setattr(all_facts, "_MOST_BYTES", int(1.05 * first) + second // 2)
    light = report_facts([study.out])["groups"]
    assert "drawing" in light[0]["data"]
    assert "drawing" not in light[1]["data"]
    assert light[1]["data"]["undrawn"].startswith("The graph is not drawn here")


@needs_browser
def test_the_page_of_a_study_in_a_browser(study, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(report_page([study.out]))
    assert len(path.read_bytes()) < 2_000_000
    with opened(path.as_uri(), tmp_path / "profile") as driver:
        text = driver.execute_script("return document.querySelector('main').innerText")
        assert FORM["title"] in text
        assert "Paired" in driver.page_source
        parts = "return document.querySelectorAll('main > article').length"
        assert driver.execute_script(parts) == 3
        resized(driver, 390)
        driver.execute_async_script("setTimeout(arguments[0], 400)")
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 390
        assert driver.get_log("browser") == []
