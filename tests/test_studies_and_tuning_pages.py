"""The pages on studies and tuning work as they stand, with fewer seeds and trials."""

import re
import shlex
from pathlib import Path

import pytest

from atoll.tabulation.form import Header, read_form

ROOT = Path(__file__).parents[1]
STUDIES, TUNING = ((ROOT / "docs" / f"{page}.md").read_text() for page in ("studies", "tuning"))
SCRIPTS = [
    pytest.param(code, id=f"{page}-{i}")
    for page, text in (("studies", STUDIES), ("tuning", TUNING))
    for i, code in enumerate(re.findall(r"```python\n(.*?)```", text, re.S))
]
FORMS = re.findall(r"```toml\n# (\S+)\n(.*?)```", STUDIES, re.S)


def command(page, number):
    block = re.findall(r"```sh\natoll (.*?)```", page, re.S)[number]
    return shlex.split(block.replace("\\\n", " "))


@pytest.fixture
def forms(tmp_path):
    for name, text in FORMS:
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("code", SCRIPTS)
def test_python_examples_run(code, in_tmp):
    exec(compile(code, "<page>", "exec"), {"__name__": "__main__"})


def test_the_first_study(here, forms):
    done = here(*command(STUDIES, 0)[:2], "--seeds", "1")
    assert done.returncode == 0, done.stderr
    # The first of the five seeds that the page shows; another machine may round a node away.
    local = re.findall(r"digits +\S +(\d\S+)", done.stdout)[0]
    assert 60 < float(local) < 72
    folder = STUDIES.split("## The folder")[1].split("After Ctrl-C")[0]
    listed = set(re.findall(r"[\w-]+\.(?:csv|json|tex|svg|pdf)\b|README.md", folder))
    written = {path.name for path in (forms / "runs/study-joining").iterdir()}
    assert written - {"runs"} == listed - {"ranks.svg", "ranks.pdf"}


def test_the_second_form_has_the_rows_and_columns_it_says(forms):
    form = read_form(forms / "pulls.toml")
    assert [row.label for row in form.rows] == ["clients=2", "clients=4", "clients=6"]
    assert [column.label for column in form.columns] == ["mild", "strong", "wide"]
    rates = {place: table.get("optimizer", {}).get("lr") for place, table in form.cells.items()}
    assert rates.pop(("clients=6", "strong")) == 0.02
    assert set(rates.values()) == {None}
    assert form.cells["clients=2", "mild"]["method"] == {
        "name": "fed-prox", "epochs": 3, "mu": 0.01,
    }  # fmt: skip


def test_every_key_is_on_the_page():
    rows = STUDIES.split("| key |")[1].split("\n\n")[0].splitlines()[2:]
    keys = re.findall(r"`(\w+)`", " ".join(row.split("|")[1] for row in rows))
    assert set(keys) == set(Header.__dataclass_fields__)


def test_the_search(here, tmp_path):
    arguments = command(TUNING, 0)
    arguments[arguments.index("--trials") + 1] = "2"
    done = here(*arguments)
    assert done.returncode == 0, done.stderr
    # Trials 0 and 1 of the page.
    [first] = re.findall(r"0 +\S +(\S+) +\S +0.01 +\S +0.01", done.stdout)
    assert 88 < float(first) < 95
    assert "0.2517" in done.stdout
    assert (tmp_path / "search" / "best.toml").is_file()


def test_the_logged_run(here, tmp_path):
    assert here(*command(TUNING, 1)).returncode == 0
    assert list((tmp_path / "logged" / "tensorboard").iterdir())
