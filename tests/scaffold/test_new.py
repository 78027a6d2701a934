"""What ``atoll new`` writes passes every check as it is."""

import subprocess
import sys
from pathlib import Path

import pytest

PARTS = {
    "method": "fed-mine",
    "model": "my-net",
    "partition": "in-turn",
    "data": "two-clouds",
    "task": "smooth",
}
ROOT = Path(__file__).parents[2]


@pytest.fixture
def made(here, tmp_path):
    said = {part: here("new", part, name) for part, name in PARTS.items()}
    assert all(done.returncode == 0 for done in said.values()), said
    return tmp_path, said


def test_it_passes_the_linter_and_the_type_checker(made):
    folder, _ = made
    for tool in (
        ("ruff", "check", "--config", ROOT / "pyproject.toml"),
        ("ruff", "format", "--check", "--config", ROOT / "pyproject.toml"),
        ("mypy", "--strict", "--config-file", ROOT / "pyproject.toml"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", *map(str, tool), *map(str, folder.glob("*.py"))],
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_its_own_tests_pass(made):
    folder, _ = made
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "."],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert "5 passed" in done.stdout, done.stdout


def test_it_says_the_next_three_commands_and_never_overwrites(made, here):
    folder, said = made
    assert said["method"].stdout.splitlines()[1:] == [
        "  atoll run --method ./fed_mine.py:FedMine --rounds 20",
        "  atoll laws ./fed_mine.py:FedMine",
        "  python -m pytest test_fed_mine.py",
    ]
    before = (folder / "fed_mine.py").read_text()
    again = here("new", "model", "fed-mine")
    assert again.returncode == 2
    assert "fed_mine.py' is there already" in again.stderr
    assert (folder / "fed_mine.py").read_text() == before


@pytest.mark.parametrize("name", ["Fed", "../up", "a b", "class", "-x-", "1st"])
def test_a_name_that_is_none_is_refused(here, name):
    done = here("new", "method", "--", name)
    assert done.returncode == 2
    assert "can't be a name" in done.stderr
