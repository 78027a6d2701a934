"""The report: its facts against the runs they come from, and the page in a real browser."""

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from html.parser import HTMLParser

import numpy as np
import polars
import pytest

import atoll
from atoll.comparison.compare import results_of
from atoll.errors import AtollError
from atoll.report.facts import report_facts
from atoll.report.html_page import embedded, page_of, report_page
from atoll.report.live import serve
from browser import needs_browser, opened, requested, resized

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A comparison of three methods over three seeds, on a table whose owners have odd names."""
    folder = tmp_path_factory.mktemp("report")
    dice = np.random.default_rng(0)
    owners = [EVIL, "north & south", "west"]
    rows = ["id,owner,a,b,label"]
    for n in range(150):
        label = n % 2
        a, b = dice.normal(size=2) + label
        rows.append(f"n{n:03d},{owners[n % 3]},{a:.3f},{b:.3f},{'</script>' if label else 'no'}")
    (folder / "nodes.csv").write_text("\n".join(rows) + "\n")
    ends = dice.integers(0, 150, (300, 2))
    edges = [f"n{s:03d},n{t:03d}" for s, t in ends if s != t and (s - t) % 2 == 0]
    (folder / "edges.csv").write_text("source,target\n" + "\n".join(edges) + "\n")
    return atoll.compare(
        methods=["local", "fed-avg", "fed-pub"], data="tables", owner="owner", seeds=3, rounds=6,
        settings={
            "data.nodes": str(folder / "nodes.csv"), "data.edges": str(folder / "edges.csv"),
            "data.label": "label",
        },
        out=folder / "found",
    )  # fmt: skip


@pytest.fixture(scope="module")
def page(compared, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(report_page([compared.out]))
    return path


def test_sites_have_the_numbers_and_verdicts_of_the_comparison(compared):
    [group] = report_facts([compared.out])["groups"]
    for label, rows in group["verdicts"].items():
        expected = compared.sites.filter(polars.col("method") == label)
        assert [group["sites"][r["client"]] for r in rows] == expected["site"].to_list()
        assert [r["verdict"] for r in rows] == expected["verdict"].to_list()
        for name in ("alone", "joined", "difference", "low", "high"):
            assert [r[name] for r in rows] == pytest.approx(expected[name].to_list(), rel=1e-4)
    methods = {m["label"]: m for m in group["methods"]}
    for row in compared.methods.iter_rows(named=True):
        found = methods[row["method"]]
        assert found["scores"][compared.metric]["mean"] == pytest.approx(row["mean"], rel=1e-4)
        if row["difference"] is not None:
            assert found["to_alone"]["p"] == pytest.approx(row["p"], rel=1e-4)


def test_confusion_counts_every_test_node_once_and_gives_the_accuracy(compared):
    [group] = report_facts([compared.out], with_data=False)["groups"]
    result = results_of(compared)[1]
    assert result.experiment.method.registered_name == "fed-avg"
    found = group["confusion"]["fed-avg"]
    counts = np.array(found["all"])
    assert np.array_equal(counts, sum(np.array(each) for each in found["each"].values()))
    assert np.trace(counts) / counts.sum() == pytest.approx(result.over_all["test_accuracy"])
    [curve] = group["curves"]["fed-avg"]
    assert curve["area"] == pytest.approx(result.over_all["test_pr_auc"], rel=1e-4)


def test_bytes_by_kind_are_those_of_the_rounds_and_the_scores_beside_them(compared):
    [group] = report_facts([compared.out], with_data=False)["groups"]
    found = group["communication"]["fed-pub"]
    sent = sum(kind["up"] for kind in found["kinds"] if kind["kind"] != "metric")
    assert sent == sum(found["rounds"]["bytes_up"])


def test_similarities_are_those_of_the_server_by_round(compared):
    [group] = report_facts([compared.out], with_data=False)["groups"]
    assert list(group["similarity"]) == ["fed-pub"]
    found = group["similarity"]["fed-pub"]
    assert found["rounds"] == [1, 2, 3, 4, 5, 6]
    result = next(r for r in results_of(compared) if r.run_dir.parts[-2:] == ("fed-pub", "seed-0"))
    last = result.parameters["server/similarity/between"].reshape(-1).tolist()
    assert found["matrices"][-1] == pytest.approx(last, abs=6e-4)


def test_no_id_of_a_node_is_on_the_page(page):
    assert not re.search(r"n\d\d\d\b", page.read_text())


class Elements(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


def test_the_page_is_whole_small_and_without_foreign_markup(page):
    text = page.read_text()
    assert len(text.encode()) < 2_000_000
    reader = Elements()
    reader.feed(text)
    scripts = [attrs for tag, attrs in reader.seen if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "facts"}, {}]
    assert not [a for _, a in reader.seen if "src" in a or a.get("href", "#")[0] != "#"]
    [policy] = [a["content"] for _, a in reader.seen if a.get("http-equiv")]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy


def test_facts_within_a_page_can_not_end_their_element():
    odd = {"</script><script>alert(1)</script>": ["<!--", "]]>", "&amp;", "\u2028"]}
    text = embedded(odd)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == odd
    assert "<b>" not in page_of({"atoll": "1", "groups": [{"title": "<b>"}]}).split("</head>")[0]


def test_what_holds_no_run_is_refused(tmp_path):
    with pytest.raises(AtollError, match="holds no run, comparison or study"):
        report_facts([tmp_path])


def test_two_runs_on_the_same_data_are_one_group(compared, tmp_path):
    one, other = (compared.out / label / "seed-0" for label in ("local", "fed-avg"))
    [group] = report_facts([one, other], with_data=False)["groups"]
    assert [m["label"] for m in group["methods"]] == ["local", "fed-avg"]
    assert group["sites"] == list(compared.plan.sites)
    assert [row["verdict"] for row in group["verdicts"]["fed-avg"]] == ["unclear"] * 3


@needs_browser
def test_the_page_in_a_browser(page, tmp_path):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    with opened(page.as_uri(), tmp_path / "profile") as driver:
        run = driver.execute_script
        # Every chart is there, and what users wrote is text.
        titles = [e.text for e in driver.find_elements(By.CSS_SELECTOR, "main h3")]
        assert len(titles) == 14
        charts = run("return document.querySelectorAll('.plot > svg[aria-label]').length")
        assert charts >= 8
        assert run(
            "return [...document.querySelectorAll('.plot > svg')]"
            ".every(e => e.childElementCount > 1)"
        )
        assert EVIL in driver.find_element(By.TAG_NAME, "main").text
        assert not run("return document.querySelectorAll('main script').length")

        # A box takes its line out of the chart.
        lines = "return document.querySelectorAll('path.line').length"
        before = run(lines)
        driver.find_element(By.ID, "g0s3-lines-mean-1").click()
        assert run(lines) == before - 1

        # The slider shows another round, by keyboard.
        slider = driver.find_element(By.CSS_SELECTOR, "input[type=range]")
        squares = (
            "return [...document.querySelectorAll('[aria-labelledby=part-0-5] rect title')]"
            ".map(e => e.textContent).join()"
        )
        last, name = run(squares), slider.get_attribute("aria-valuetext")
        slider.send_keys(Keys.HOME)
        assert slider.get_attribute("aria-valuetext") == "1" != name
        assert run(squares) != last

        # A chart reads its values to the keyboard.
        chart = driver.find_element(
            By.CSS_SELECTOR, "section[aria-labelledby=part-0-3] svg[tabindex]"
        )
        chart.send_keys(Keys.ARROW_LEFT)
        readout = driver.find_element(By.CSS_SELECTOR, "section[aria-labelledby=part-0-3] .readout")
        assert readout.text.startswith("round 5: ")

        # Dark and light by a button.
        paper = "return getComputedStyle(document.body).backgroundColor"
        light = run(paper)
        driver.find_element(By.ID, "theme").click()
        assert run(paper) != light

        # The keyboard reaches every control, the skip link first, and each has a name.
        driver.get(page.as_uri())
        driver.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
        assert driver.switch_to.active_element.text == "Skip to the content"
        reachable = run(
            "return [...document.querySelectorAll('main select, main input, button, summary')]"
            ".every(e => e.tabIndex >= 0 && !e.disabled)"
        )
        assert reachable
        unnamed = run(
            "return [...document.querySelectorAll('select, input, button')].filter(e => "
            "!(e.labels && e.labels.length || e.textContent.trim())).length"
        )
        assert unnamed == 0

        for width in (360, 800):
            resized(driver, width)
            driver.execute_async_script("setTimeout(arguments[0], 400)")
            assert run("return document.documentElement.scrollWidth") <= width

        assert driver.get_log("browser") == []
        assert {a.split("#")[0] for a in requested(driver)} == {page.as_uri()}


@needs_browser
def test_the_page_follows_a_run_that_goes_on(compared, tmp_path):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    run_dir = tmp_path / "run"
    run_dir.mkdir()
    source = compared.out / "fed-avg" / "seed-0"
    for name in ("config.toml", "clients.json"):
        (run_dir / name).write_bytes((source / name).read_bytes())
    history, rounds = (polars.read_parquet(source / f"{n}.parquet") for n in ("history", "rounds"))
    history.filter(polars.col("round") <= 2).write_parquet(run_dir / "history.parquet")
    rounds.head(2).write_parquet(run_dir / "rounds.parquet")
    with (
        serve([run_dir], seconds=0.3, with_data=False) as address,
        opened(address, tmp_path / "profile") as driver,
    ):

        def text():
            return driver.find_element(By.TAG_NAME, "main").text

        assert "2 of 6 rounds" in text()
        driver.execute_script("window.same = true")
        history.write_parquet(run_dir / "history.parquet")
        rounds.write_parquet(run_dir / "rounds.parquet")
        WebDriverWait(driver, 15).until(lambda _: "6 of 6 rounds" in text())
        assert driver.execute_script("return window.same")  # the page was not loaded anew
        assert {a.rsplit("/", 1)[0] + "/" for a in requested(driver)} == {address}
        assert driver.get_log("browser") == []


def answer(address, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as problem:
        return problem.code, problem.read()


def test_watching_is_for_this_machine_and_those_who_have_the_token(compared):
    with serve([compared.out], with_data=False) as address:
        host, port, token = re.fullmatch(r"http://([\d.]+):(\d+)/([\w-]{32})/", address).groups()
        assert host == "127.0.0.1"
        assert answer(address)[0] == 200
        status, body = answer(address + "facts.json")
        assert (status, json.loads(body)["groups"][0]["sites"]) == (200, list(compared.plan.sites))
        for wrong in ("", "x" * 32 + "/", f"{token}/../plan.json", f"{token}/config.toml"):
            assert answer(f"http://{host}:{port}/{wrong}")[0] == 404
        assert answer(address, Host=f"evil.example:{port}")[0] == 403
        request = urllib.request.Request(address, data=b"x", method="POST")
        with pytest.raises(urllib.error.HTTPError, match="501"):
            urllib.request.urlopen(request)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address)


def test_the_command_watches_until_it_is_interrupted(compared):
    command = [sys.executable, "-m", "atoll", "watch", str(compared.out), "--no-data"]
    going = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = going.stdout.readline().split()[1]
        assert answer(address)[0] == 200
        going.send_signal(signal.SIGINT)
        said = going.communicate(timeout=20)
    finally:
        going.kill()
    assert (going.returncode, said) == (0, ("", "atoll: stopped watching\n"))
