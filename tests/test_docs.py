"""The Python in the docs runs as it stands."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = ["README.md", "CONTRIBUTING.md"]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.S | re.M)
# Pages whose blocks have a test of their own, which also holds them against what the page says.
ELSEWHERE = {
    "fraud-walkthrough": "test_fraud_walkthrough",
    "plug-ins": "plugins/test_page",
    "studies": "test_studies_and_tuning_pages",
    "tuning": "test_studies_and_tuning_pages",
    "use-the-model": "test_use_the_model_page",
    "your-own-graph": "test_your_own_graph_page",
}
# Pages that are read from top to bottom here, as a reader would type them.
READ = ["is-joining-worth-it", "pictures-and-reports", "start", "which-method", "write-a-method",
        "your-own-model"]  # fmt: skip
BLOCKS = [
    pytest.param(page, code, id=f"{page}:{i}")
    for page in PAGES
    for i, (_, code) in enumerate(
        found for found in FENCE.findall((ROOT / page).read_text()) if found[0] == "python"
    )
]


def python(code, cwd):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def command(arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "atoll", *arguments],
        capture_output=True, text=True, cwd=cwd, timeout=120,
    )  # fmt: skip


def test_there_are_examples():
    assert {block.values[0] for block in BLOCKS} == set(PAGES)


def test_every_python_block_of_the_docs_is_run_by_some_test():
    """A new page with Python goes into READ, or gets a test of its own."""
    with_python = {p.stem for p in DOCS if "python" in dict(FENCE.findall(p.read_text()))}
    assert with_python <= {*ELSEWHERE, *READ}
    for test in ELSEWHERE.values():
        assert (ROOT / "tests" / f"{test}.py").is_file()


def parts(page):
    """What a reader of a page does, one after the other: save a file, run Python, type a command.

    A first line ``# NAME.py`` says that a block is to be saved.
    """
    for language, code in FENCE.findall((ROOT / "docs" / f"{page}.md").read_text()):
        saved = re.match(r"# (\w+\.py)\n", code)
        if language == "python":
            yield ("save" if saved else "python"), (saved[1] if saved else "", code)
        elif language == "sh":
            for line in code.replace("\\\n", " ").strip().splitlines():
                yield "command", (line, "")


# Commands are shortened, not changed: fewer rounds and seeds, and data that is built in.
SHORTER = [
    (r"--rounds \d+", "--rounds 2"), (r"--seeds \d+", "--seeds 2"), (r"--jobs \d+", "--jobs 1"),
    (r"--data (cora|twitch|tolokers)( --partition natural)?", "--data patients"),
    (r"--clients \d+", "--clients 3"),
    (r"--data tables .* --owner bank", "--data patients --clients 3 --rounds 2"),
]  # fmt: skip
NOT_HERE = ("make", "source", "atoll watch", "atoll resume")


@pytest.mark.parametrize("page", READ)
def test_a_page_can_be_followed_from_top_to_bottom(page, here, tmp_path):
    done_something = False
    for kind, (name, code) in parts(page):
        if kind == "save":
            (tmp_path / name).write_text(code)
        elif kind == "python":
            python(code, tmp_path)
        elif not name.startswith(NOT_HERE):
            for long, short in SHORTER:
                name = re.sub(long, short, name)
            arguments = shlex.split(name.removesuffix("&"))[1:]
            # torch_geometric warns of deprecations when it is imported, which fails tests.
            done = command(arguments, tmp_path) if "net.py" in name else here(*arguments)
            assert done.returncode == 0, (name, done.stderr)
        done_something = True
    assert done_something


def commands():
    for page in [*DOCS, ROOT / "README.md", *sorted((ROOT / "docs/methods").glob("*.md"))]:
        text = page.read_text().replace("\\\n", " ")
        fenced = "".join(code for kind, code in FENCE.findall(text) if kind == "sh")
        shown = re.findall(r"^(?: {4}|\$ )(atoll [a-z].*)$", text, re.M)
        for line in [*shown, *re.findall(r"^atoll [a-z].*$", fenced, re.M)]:
            if not re.search(r"[<>|]|\.\.\.$", line.split("#")[0]):
                yield f"{page.stem}: {line.split('#')[0].strip()}"


def test_every_command_in_the_docs_has_options_that_exist():
    import click
    from typer.main import get_command

    from atoll.cli import app

    found = list(dict.fromkeys(commands()))
    assert len(found) > 60
    top = get_command(app)
    wrong = []
    for text in found:
        _, name, *arguments = shlex.split(text.partition(": ")[2].removesuffix("&"))
        try:
            top.commands[name].make_context(name, list(arguments))
        except KeyError:
            wrong.append(f"{text}: no such command")
        except click.exceptions.Exit:
            pass
        except click.UsageError as problem:
            wrong.append(f"{text}: {problem.format_message()}")
    assert wrong == []


@pytest.mark.parametrize(("page", "code"), BLOCKS)
def test_python_examples_run(page, code, tmp_path):
    python(code, tmp_path)


def test_the_method_of_the_contributors_guide_is_found_and_trains(tmp_path):
    [code] = [block.values[1] for block in BLOCKS if block.values[0] == "CONTRIBUTING.md"]
    run = (
        "import atoll\n"
        "result = atoll.run(method='fed-wary', data='patients', partition='random', clients=3,"
        " rounds=15, settings={'method.first_step': 0.9})\n"
        "print(result.summary()['method'], result.test_accuracy > 0.7)\n"
    )
    assert python(code + "\n" + run, tmp_path).strip() == "fed-wary True"


def test_the_recipe_of_the_readme_resolves(tmp_path):
    from atoll.experiment.config import read_table, resolve

    recipe = dict(FENCE.findall((ROOT / "README.md").read_text()))["toml"]
    (tmp_path / "recipe.toml").write_text(recipe)
    assert resolve(read_table(tmp_path / "recipe.toml")).method.fraction == 0.5
