"""The Python in the docs runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "CONTRIBUTING.md"]
BLOCKS = [
    pytest.param(page, code, id=f"{page}:{i}")
    for page in PAGES
    for i, code in enumerate(re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S))
]


def python(code, cwd):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_examples():
    assert {block.values[0] for block in BLOCKS} == set(PAGES)


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

    [recipe] = re.findall(r"```toml\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    (tmp_path / "recipe.toml").write_text(recipe)
    assert resolve(read_table(tmp_path / "recipe.toml")).method.fraction == 0.5
